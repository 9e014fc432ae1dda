//! Changes that another process makes, as a running server with a cache shows them.

use std::time::Duration;

use animal_store::order::OrderId;
use animal_store::pet::{PetId, PetStatus};
use animal_store::store::Store;
use futures_util::TryStreamExt;
use harness::{App, Client, Connection, START, SqlClient, eventually, propagation_time};
use serde_json::{Value, json};

const PETS: i64 = 25;

/// The number of changes: a thousand in long runs. In others, fewer where servers poll less often, and over HTTP/2, which serves the
/// same pages.
fn changes(store: &Store) -> u32 {
    let is_quick = store.poll_interval() <= Duration::from_millis(100)
        && std::env::var_os("ANIMAL_STORE_TEST_HTTP2").is_none();
    if harness::is_long() || is_quick {
        1_000
    } else {
        60
    }
}

/// Pseudorandom numbers, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

async fn change(store: &Store, numbers: &mut Random) -> bool {
    let pet = PetId(1 + numbers.below(PETS));
    let orders = store
        .orders(None)
        .try_collect::<Vec<_>>()
        .await
        .expect("orders");
    let order = OrderId(1 + numbers.below(1 + orders.len() as i64));
    match numbers.below(4) {
        0 => store
            .place_order(pet, None, START)
            .await
            .expect("store")
            .is_ok(),
        1 => store
            .complete_order(order, START)
            .await
            .expect("store")
            .is_ok(),
        2 => store
            .cancel_order(order, START)
            .await
            .expect("store")
            .is_ok(),
        _ => {
            let status = PetStatus::ALL[usize::try_from(numbers.below(3)).expect("small")];
            let set = store
                .set_status(pet, status, true, START)
                .await
                .expect("store");
            set.is_ok_and(|set| set.before != status)
        }
    }
}

/// Every page that a client can request with these sizes, by the current data.
fn expected(other: &SqlClient) -> Vec<(String, Value)> {
    let select = "SELECT id, name, category_id, status FROM pets ORDER BY id";
    let number = |text: &String| text.parse::<i64>().expect("a number");
    let pet = |row: &Vec<String>| {
        let (id, category) = (number(&row[0]), number(&row[2]));
        json!({"id": id, "name": row[1], "categoryId": category, "status": row[3]})
    };
    let pets: Vec<Value> = other.query(select).iter().map(pet).collect();
    let mut all: Vec<(String, Value)> = pets
        .iter()
        .map(|pet| (format!("/v1/pets/{}", pet["id"]), pet.clone()))
        .collect();
    for limit in [1, 7, 20, 100] {
        let page = |pets: Vec<&Value>| json!(pets.into_iter().take(limit).collect::<Vec<_>>());
        all.push((
            format!("/v1/pets?limit={limit}"),
            page(pets.iter().collect()),
        ));
        for status in PetStatus::ALL.map(PetStatus::as_str) {
            let those = pets.iter().filter(|pet| pet["status"] == status).collect();
            all.push((
                format!("/v1/pets?limit={limit}&status={status}"),
                page(those),
            ));
        }
    }
    all
}

/// Whether all pages are as wanted. One that is not becomes the first to be looked at the next time.
fn all_equal(key: &Client, connection: &mut Connection, wanted: &mut [(String, Value)]) -> bool {
    let differs = wanted.iter().position(|(target, value)| {
        let response = key.request("GET", target).send_on(connection);
        response.json() != *value
    });
    wanted.rotate_left(differs.unwrap_or_default());
    differs.is_none()
}

/// The number of servers that are tested concurrently, because most of the time is spent waiting for changes.
const SERVERS: u32 = 4;

#[test]
fn after_each_random_change_every_page_and_animal_equals_the_store_within_a_second() {
    std::thread::scope(|scope| {
        for seed in 0..SERVERS {
            scope.spawn(move || every_change_is_seen(seed));
        }
    });
}

fn every_change_is_seen(seed: u32) {
    let (app, _, key) = App::start();
    key.create_many(usize::try_from(PETS).expect("small"));
    let store = app.second_store();
    let other = app.sql_client();
    let mut connection = key.connect();
    let mut numbers = Random(seed.into());
    let (mut done, changes) = (0, changes(&store) / SERVERS);
    while done < changes {
        if !app.block_on(change(&store, &mut numbers)) {
            continue;
        }
        done += 1;
        let mut wanted = expected(&other);
        eventually(
            propagation_time(),
            &format!("seed {seed}, change {done}"),
            || all_equal(&key, &mut connection, &mut wanted),
        );
    }
}

#[test]
fn a_walk_in_progress_neither_repeats_nor_loses_an_animal_whose_status_did_not_change() {
    let (app, _, key) = App::start();
    key.create_many(200);
    let store = app.second_store();
    // Every third animal changes back and forth; the others stay available.
    let changing: Vec<i64> = (1..=200).filter(|id| id % 3 == 0).collect();
    for filter in ["", "&status=available"] {
        let mut numbers = Random(11);
        let mut seen = Vec::new();
        let mut page = key.get(&format!("/v1/pets?limit=10{filter}"));
        loop {
            seen.extend(page.ids());
            for _ in 0..5 {
                let which = usize::try_from(numbers.below(changing.len() as i64)).expect("small");
                let status = PetStatus::ALL[usize::try_from(numbers.below(3)).expect("small")];
                let set = store.set_status(PetId(changing[which]), status, true, START);
                app.block_on(set).expect("store").expect("set");
            }
            let Some(next) = page.next() else { break };
            page = key.follow(&next);
        }
        let unchanged: Vec<i64> = seen.iter().copied().filter(|id| id % 3 != 0).collect();
        assert_eq!(
            unchanged,
            (1..=200).filter(|id| id % 3 != 0).collect::<Vec<_>>()
        );
        assert!(
            seen.is_sorted_by(|one, other| one < other),
            "none twice, in order: {seen:?}"
        );
    }
}
