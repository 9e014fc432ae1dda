//! The same operations, in the same order, have the same results on both engines.

use std::sync::Arc;
use std::time::Duration;

use animal_store::clock::Timestamp;
use animal_store::key::{KeyId, KeyIdentity, Secret};
use animal_store::limit::{Ban, DayUsage};
use animal_store::order::OrderId;
use animal_store::page::{Cursor, OrderQuery, PageSize, PetQuery};
use animal_store::pet::{NewPet, PetId, PetStatus};
use animal_store::plan::{Limits, Plan};
use animal_store::store::{
    Database, IdempotencyRecord, KeyChange, KeyRecord, Mode, NewKey, Store, UsageRecorder,
};
use futures_util::TryStreamExt;
use harness::{Postgres, START};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;

/// How many sequences are tried. Each continues with the data of those before.
const SEQUENCES: u32 = 500;

/// One operation. IDs are taken from a small range, so that most of them exist.
#[derive(Clone, Debug)]
enum StoreOperation {
    Create {
        name: u8,
        retry: Option<(u8, u8)>,
    },
    Pet(i64),
    Pets {
        limit: usize,
        status: Option<PetStatus>,
        after: i64,
    },
    Orders {
        limit: usize,
        after: i64,
    },
    Place {
        pet: i64,
        ships: bool,
    },
    Complete(i64),
    Cancel(i64),
    SetStatus {
        pet: i64,
        to: PetStatus,
        force: bool,
    },
    AddKey {
        enterprise: bool,
        expires: bool,
    },
    Key(i64),
    SetPlan {
        key: i64,
        enterprise: bool,
    },
    Rotate(i64),
    Revoke(i64),
    Ban(i64),
    Unban(i64),
    RecordUsage {
        key: i64,
        requests: u32,
    },
    Usage(Option<i64>),
    Sweep,
    Wait(u64),
}

fn operation() -> impl Strategy<Value = StoreOperation> {
    let pet = || 1_i64..200;
    let key = || 1_i64..20;
    let order = || 1_i64..60;
    let status = || prop::sample::select(&PetStatus::ALL[..]);
    let limit = || 1_usize..20;
    prop_oneof![
        6 => (any::<u8>(), prop::option::of((0_u8..8, 0_u8..4)))
            .prop_map(|(name, retry)| StoreOperation::Create { name, retry }),
        2 => pet().prop_map(StoreOperation::Pet),
        4 => (limit(), prop::option::of(status()), 0_i64..300)
            .prop_map(|(limit, status, after)| StoreOperation::Pets { limit, status, after }),
        2 => (limit(), 0_i64..60).prop_map(|(limit, after)| StoreOperation::Orders { limit, after }),
        3 => (pet(), any::<bool>()).prop_map(|(pet, ships)| StoreOperation::Place { pet, ships }),
        2 => order().prop_map(StoreOperation::Complete),
        2 => order().prop_map(StoreOperation::Cancel),
        2 => (pet(), status(), any::<bool>())
            .prop_map(|(pet, to, force)| StoreOperation::SetStatus { pet, to, force }),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(enterprise, expires)| StoreOperation::AddKey { enterprise, expires }),
        2 => key().prop_map(StoreOperation::Key),
        1 => (key(), any::<bool>()).prop_map(|(key, enterprise)| StoreOperation::SetPlan { key, enterprise }),
        1 => key().prop_map(StoreOperation::Rotate),
        1 => key().prop_map(StoreOperation::Revoke),
        1 => key().prop_map(StoreOperation::Ban),
        1 => key().prop_map(StoreOperation::Unban),
        2 => (key(), 1_u32..9).prop_map(|(key, requests)| StoreOperation::RecordUsage { key, requests }),
        1 => prop::option::of(key()).prop_map(StoreOperation::Usage),
        1 => Just(StoreOperation::Sweep),
        1 => (1_u64..90_000).prop_map(StoreOperation::Wait),
    ]
}

fn plan(enterprise: bool) -> Plan {
    match enterprise {
        true => Plan::Enterprise(Limits::new(7, 70).expect("limits")),
        false => Plan::Pro,
    }
}

fn size(limit: usize) -> PageSize {
    limit.to_string().parse().expect("a size")
}

/// What an operator sees of a key. How often revisions are raised differs between engines.
fn shown(key: Option<KeyRecord>) -> String {
    format!("{:?}", key.map(|key| KeyRecord { revision: 0, ..key }))
}

/// Performs an operation on one store, and returns the whole result.
async fn perform(
    store: &Store,
    operation: &StoreOperation,
    secret: &Secret,
    now: Timestamp,
) -> String {
    const FAILED: &str = "the store responds";
    // As if another process had changed an animal.
    store.clear_cache();
    match *operation {
        StoreOperation::Create { name, retry } => {
            let name = retry.map_or(name, |(_, body)| body);
            let body = format!("{{\"name\":\"animal {name}\",\"categoryId\":{name}}}");
            let pet = NewPet::from_json(body.as_bytes()).expect("a body");
            let retry = retry.map(|(retried, body)| IdempotencyRecord {
                key: KeyId(1),
                idempotency_key: [retried; 32],
                fingerprint: [body; 32],
                created_at: now,
            });
            format!("{:?}", store.create(pet, retry).await.expect(FAILED))
        }
        StoreOperation::Pet(id) => format!("{:?}", store.pet(PetId(id)).await.expect(FAILED)),
        StoreOperation::Pets {
            limit,
            status,
            after,
        } => {
            let cursor = Cursor::after(after);
            let query = PetQuery {
                limit: size(limit),
                status,
                cursor,
            };
            format!("{:?}", store.page(query).await.expect(FAILED))
        }
        StoreOperation::Orders { limit, after } => {
            let cursor = Cursor::after(after);
            let query = OrderQuery {
                limit: size(limit),
                cursor,
            };
            let page = store.order_page(query).await.expect(FAILED);
            format!(
                "{page:?} {:?}",
                store
                    .orders(None)
                    .try_collect::<Vec<_>>()
                    .await
                    .expect(FAILED)
            )
        }
        StoreOperation::Place { pet, ships } => {
            let date = ships.then(|| now.plus(Duration::from_secs(60)));
            format!(
                "{:?}",
                store
                    .place_order(PetId(pet), date, now)
                    .await
                    .expect(FAILED)
            )
        }
        StoreOperation::Complete(id) => {
            format!(
                "{:?}",
                store.complete_order(OrderId(id), now).await.expect(FAILED)
            )
        }
        StoreOperation::Cancel(id) => {
            format!(
                "{:?}",
                store.cancel_order(OrderId(id), now).await.expect(FAILED)
            )
        }
        StoreOperation::SetStatus { pet, to, force } => {
            let set = store.set_status(PetId(pet), to, force, now).await;
            format!("{:?}", set.expect(FAILED))
        }
        StoreOperation::AddKey {
            enterprise,
            expires,
        } => {
            let key = NewKey {
                name: "a".into(),
                plan: plan(enterprise),
                created_at: now,
                expires_at: expires.then(|| now.plus(Duration::from_secs(600))),
            };
            let added = store.add_key(key, secret).await.expect(FAILED);
            let found = store.key_by_hash(secret.hash()).await.expect(FAILED);
            shown(Some(added)) + &shown(found)
        }
        StoreOperation::Key(id) => shown(store.key(KeyId(id)).await.expect(FAILED)),
        StoreOperation::SetPlan { key, enterprise } => {
            changed(store, key, KeyChange::Plan(plan(enterprise))).await
        }
        StoreOperation::Rotate(id) => {
            let rotated = KeyChange::Secret {
                hash: secret.hash(),
                prefix: secret.prefix().to_owned(),
                old_until: now.plus(Duration::from_secs(60)),
            };
            changed(store, id, rotated).await
        }
        StoreOperation::Revoke(id) => changed(store, id, KeyChange::Revoke(now)).await,
        StoreOperation::Ban(id) => {
            let until = now.plus(Duration::from_secs(300));
            let ban = Ban {
                started_at: now,
                until,
            };
            let key = identity(store, id).await;
            store.record_ban(key, ban).await.expect(FAILED);
            shown(store.key(KeyId(id)).await.expect(FAILED))
        }
        StoreOperation::Unban(id) => changed(store, id, KeyChange::Unban(now)).await,
        StoreOperation::RecordUsage { key, requests } => {
            let on = DayUsage {
                day: now.day(),
                requests,
                rejected: 1,
                last: now,
            };
            let mut recorder = UsageRecorder::new().expect("randomness");
            let batch = Arc::new(recorder.batch([(identity(store, key).await, on)], now));
            // The second time adds nothing.
            for _ in 0..2 {
                store.record_usage(&batch).await.expect(FAILED);
            }
            format!("{:?}", store.usage_on(now.day()).await.expect(FAILED))
        }
        StoreOperation::Usage(id) => format!(
            "{:?}",
            store
                .usage(id.map(KeyId))
                .try_collect::<Vec<_>>()
                .await
                .expect(FAILED)
        ),
        StoreOperation::Sweep => {
            let swept = store
                .sweep_idempotency(now.minus(IdempotencyRecord::RETENTION))
                .await;
            format!("{:?}", swept.expect(FAILED))
        }
        StoreOperation::Wait(_) => String::new(),
    }
}

/// The identity of a key, which may be missing.
async fn identity(store: &Store, id: i64) -> KeyIdentity {
    let key = store.key(KeyId(id)).await.expect("a store that works");
    key.map_or(
        KeyIdentity {
            id: KeyId(id),
            created_at: START,
        },
        |key| key.identity(),
    )
}

/// Changes a key, and shows it before and after.
async fn changed(store: &Store, id: i64, change: KeyChange) -> String {
    let changed = store
        .change_key(KeyId(id), move |_| Ok::<_, ()>(change.clone()))
        .await
        .expect("a store that works")
        .map(|changed| changed.expect("nothing is rejected"));
    let (before, after) = changed.map(|both| (both.before, both.after)).unzip();
    shown(before) + &shown(after)
}

#[test]
fn five_hundred_random_sequences_have_the_same_results_on_both_engines() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
    let embedded = Database::Sqlite(folder.path().join("a.db"));
    let shared: Database = postgres.url().parse().expect("a database");
    let [embedded, shared] = [embedded, shared].map(|database| {
        let opening = Store::open(&database, Mode::Migrate, 1);
        runtime.block_on(opening).expect("a store")
    });
    let now = std::cell::Cell::new(START);
    let performed = std::cell::Cell::new(0);
    let config = Config {
        cases: SEQUENCES,
        failure_persistence: None,
        // A sequence continues with the data of those before, so a shorter one would not be the same.
        max_shrink_iters: 0,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&prop::collection::vec(operation(), 1..25), |operations| {
            for operation in &operations {
                // No two operations happen in the same millisecond; the parts of one operation do.
                let wait = if let StoreOperation::Wait(seconds) = operation {
                    seconds * 1000
                } else {
                    1
                };
                now.set(now.get().plus(Duration::from_millis(wait)));
                performed.set(performed.get() + 1);
                let secret = Secret::generate().expect("randomness");
                let responses = [&embedded, &shared]
                    .map(|store| runtime.block_on(perform(store, operation, &secret, now.get())));
                prop_assert_eq!(&responses[0], &responses[1], "{:?}", operation);
            }
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(performed.get() > 3_000, "{}", performed.get());
}
