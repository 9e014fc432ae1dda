//! The state machine: its table row by row, and the store compared with a model.

use animal_store::order::action::ActionRejection;
use animal_store::order::transition::{Action, InvalidTransition, next};
use animal_store::order::{OrderId, OrderState};
use animal_store::pet::{NewPet, PetId, PetStatus};
use animal_store::store::{CreationOutcome, Database, Mode, Store};
use futures_util::TryStreamExt;
use harness::{START, SqlClient};
use proptest::prelude::*;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use OrderState::{Cancelled, Complete, Open};
use PetStatus::{Available, Pending, Sold};

#[test]
fn every_row_of_the_table_and_nothing_else_is_allowed() {
    let (pet, id) = (PetId(1), OrderId(1));
    let set = |to, force| Action::SetStatus { pet, to, force };
    let ship_date = None;
    for status in PetStatus::ALL {
        for order in [None, Some(Open), Some(Complete), Some(Cancelled)] {
            let is_open = order == Some(Open);
            let place = match (status, is_open) {
                (Available, false) => Ok((Some(Pending), Some(Open))),
                (Available, true) => Err(InvalidTransition::AlreadyOrdered),
                _ => Err(InvalidTransition::NotAvailable(status)),
            };
            assert_eq!(next(status, order, Action::Place { pet, ship_date }), place);
            let ended = |animal, state| match order {
                Some(Open) => Ok((Some(animal), Some(state))),
                Some(Complete) => Err(InvalidTransition::AlreadyComplete),
                Some(Cancelled) => Err(InvalidTransition::AlreadyCancelled),
                None => Err(InvalidTransition::NoOrder),
            };
            assert_eq!(
                next(status, order, Action::Complete(id)),
                ended(Sold, Complete)
            );
            assert_eq!(
                next(status, order, Action::Cancel(id)),
                ended(Available, Cancelled)
            );
            for to in PetStatus::ALL {
                let without_force = match to {
                    _ if !is_open => Ok((Some(to), order)),
                    Pending => Ok((Some(Pending), order)),
                    _ => Err(InvalidTransition::HasOpenOrder),
                };
                let by_force = if is_open && to != Pending {
                    Ok((Some(to), Some(Cancelled)))
                } else {
                    Ok((Some(to), order))
                };
                assert_eq!(next(status, order, set(to, false)), without_force);
                assert_eq!(next(status, order, set(to, true)), by_force);
            }
            let remove = |force| next(status, order, Action::Remove { pet, force });
            let (without_force, by_force) = match order {
                Some(Open) => (
                    Err(InvalidTransition::HasOpenOrder),
                    Ok((None, Some(Cancelled))),
                ),
                _ => (Ok((None, order)), Ok((None, order))),
            };
            assert_eq!((remove(false), remove(true)), (without_force, by_force));
        }
    }
}

/// An action of an operator.
#[derive(Clone, Copy, Debug)]
enum Act {
    Place(usize),
    Complete(usize),
    Cancel(usize),
    Set(usize, PetStatus, bool),
    Remove(usize, bool),
}

const PETS: usize = 3;

/// The simplest correct implementation: the status of each animal, and all orders.
#[derive(Debug)]
struct Model {
    /// None if it is removed.
    pets: [Option<PetStatus>; PETS],
    orders: Vec<(usize, OrderState)>,
}

impl Model {
    fn open_order(&self, pet: usize) -> Option<usize> {
        self.orders.iter().position(|order| *order == (pet, Open))
    }

    /// Carries out an action, if it is allowed. Returns whether it was.
    fn act(&mut self, act: Act) -> bool {
        match act {
            Act::Place(pet) => {
                let can = self.pets[pet] == Some(Available);
                if can {
                    self.pets[pet] = Some(Pending);
                    self.orders.push((pet, Open));
                }
                can
            }
            Act::Complete(order) => self.end(order, Complete, Some(Sold)),
            Act::Cancel(order) => self.end(order, Cancelled, Some(Available)),
            Act::Set(pet, ..) | Act::Remove(pet, _) if self.pets[pet].is_none() => false,
            Act::Set(pet, to, force) => match self.open_order(pet) {
                Some(_) if to == Pending => true,
                Some(order) if force => self.end(order, Cancelled, Some(to)),
                Some(_) => false,
                None => {
                    self.pets[pet] = Some(to);
                    true
                }
            },
            Act::Remove(pet, force) => match self.open_order(pet) {
                Some(order) if force => self.end(order, Cancelled, None),
                Some(_) => false,
                None => {
                    self.pets[pet] = None;
                    true
                }
            },
        }
    }

    fn end(&mut self, order: usize, state: OrderState, status: Option<PetStatus>) -> bool {
        match self.orders.get(order).copied() {
            Some((pet, Open)) => {
                self.orders[order].1 = state;
                self.pets[pet] = status;
                true
            }
            _ => false,
        }
    }
}

async fn act(store: &Store, act: Act) -> bool {
    let id = |order: usize| OrderId(i64::try_from(order).expect("small") + 1);
    let pet = |pet: usize| PetId(i64::try_from(pet).expect("small") + 1);
    match act {
        Act::Place(which) => store
            .place_order(pet(which), None, START)
            .await
            .expect("the store")
            .is_ok(),
        Act::Complete(order) => store
            .complete_order(id(order), START)
            .await
            .expect("the store")
            .is_ok(),
        Act::Cancel(order) => store
            .cancel_order(id(order), START)
            .await
            .expect("the store")
            .is_ok(),
        Act::Set(which, to, force) => store
            .set_status(pet(which), to, force, START)
            .await
            .expect("the store")
            .is_ok(),
        Act::Remove(which, force) => store
            .remove_pet(pet(which), force, START)
            .await
            .expect("the store")
            .is_ok(),
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let pet = 0..PETS;
    let order = 0..8_usize;
    let status = prop::sample::select(PetStatus::ALL.to_vec());
    let act = prop_oneof![
        3 => pet.clone().prop_map(Act::Place),
        2 => order.clone().prop_map(Act::Complete),
        2 => order.prop_map(Act::Cancel),
        2 => (pet.clone(), status, any::<bool>()).prop_map(|(pet, to, force)| Act::Set(pet, to, force)),
        1 => (pet, any::<bool>()).prop_map(|(pet, force)| Act::Remove(pet, force)),
    ];
    prop::collection::vec(act, 1..40)
}

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

fn open(runtime: &Runtime, database: &Database) -> Store {
    let opening = Store::open(database, Mode::Migrate, 1);
    runtime.block_on(opening).expect("a store")
}

/// An empty store on the engine that is tested, and the folder that it may be in.
fn empty_store() -> (Runtime, Store, TempDir) {
    let runtime = runtime();
    let folder = TempDir::new().expect("a folder");
    let store = open(&runtime, &harness::database_for(&folder));
    (runtime, store, folder)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(acts in acts()) {
        let (runtime, store, _folder) = empty_store();
        let mut model = Model { pets: [Some(Available); PETS], orders: Vec::new() };
        runtime.block_on(async {
            for _ in 0..PETS {
                let pet = NewPet::from_json(br#"{"name":"a","categoryId":1}"#).expect("a body");
                assert!(matches!(store.create(pet, None).await, Ok(CreationOutcome::New(_))));
            }
            for (number, one) in acts.into_iter().enumerate() {
                let (wanted, done) = (model.act(one), act(&store, one).await);
                assert_eq!(wanted, done, "{number}: {one:?} on {model:?}");
                let orders = store.orders(None).try_collect::<Vec<_>>().await.expect("orders");
                let seen: Vec<_> = orders.iter().map(|order| (order.pet.0 - 1, order.state)).collect();
                let wanted: Vec<_> = model.orders.iter().map(|(pet, state)| (*pet as i64, *state)).collect();
                assert_eq!(seen, wanted, "{number}: {one:?}");
                store.clear_cache();
                for (pet, status) in (1..).zip(model.pets) {
                    let json = store.pet(PetId(pet)).await.expect("the store");
                    let text = json.map(|json| String::from_utf8_lossy(&json).into_owned());
                    let agrees = match (&text, status) {
                        (Some(text), Some(status)) => text.contains(status.as_str()),
                        (text, status) => text.is_none() && status.is_none(),
                    };
                    assert!(agrees, "{number}: {one:?}: {text:?}, not {status:?}");
                }
            }
        });
    }
}

#[test]
fn an_unknown_animal_or_order_is_reported() {
    let (runtime, store, _folder) = empty_store();
    runtime.block_on(async {
        let (pet, order) = (PetId(9), OrderId(9));
        assert_eq!(
            store.place_order(pet, None, START).await.expect("store"),
            Err(ActionRejection::UnknownPet(pet))
        );
        assert_eq!(
            store
                .set_status(pet, Sold, true, START)
                .await
                .expect("store"),
            Err(ActionRejection::UnknownPet(pet))
        );
        assert_eq!(
            store.remove_pet(pet, true, START).await.expect("store"),
            Err(ActionRejection::UnknownPet(pet))
        );
        assert_eq!(
            store.complete_order(order, START).await.expect("store"),
            Err(ActionRejection::UnknownOrder(order))
        );
        assert_eq!(
            store.cancel_order(order, START).await.expect("store"),
            Err(ActionRejection::UnknownOrder(order))
        );
    });
}

#[test]
fn the_tables_themselves_reject_a_second_open_order() {
    let folder = TempDir::new().expect("a folder");
    let database = harness::database_for(&folder);
    drop(open(&runtime(), &database));
    let other = SqlClient::open(&database);
    other.add_pet("a", 1, "pending");
    let order = |id: i64, state: &str, ended: &str| {
        other.change(&format!(
            "INSERT INTO orders (id, pet_id, status, placed_at, ended_at) VALUES ({id}, 1, '{state}', 0, {ended})"
        ))
    };
    order(1, "open", "NULL").expect("a first one");
    order(2, "cancelled", "1").expect("one that is not open");
    for (state, ended, why) in [
        ("open", "NULL", "unique constraint"),
        ("open", "1", "check constraint"),
        ("lost", "1", "check constraint"),
    ] {
        let error = order(3, state, ended)
            .expect_err("a rejection")
            .to_lowercase();
        assert!(error.contains(why), "{state}, {ended}: {error}");
    }
}
