//! Three nodes as separate processes, on one PostgreSQL and one Redis that the tests start themselves: what a client sees when all are
//! healthy, and when one of them is cut off, stalled, killed or replaced.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue has failed"
)]

mod bans;
mod changes;
mod clocks;
mod cluster;
mod connections;
mod copy;
mod dashboard;
mod exact;
mod far;
mod format;
mod frozen;
mod load;
mod locked;
mod lost;
mod nodes;
mod packaged;
mod postgres;
mod privileges;
mod query_plans;
mod readiness;
mod redis;
mod redis_cluster;
mod redis_user;
mod registration;
mod retries;
mod same;
mod tls;
mod transfer;
mod unconfirmed;
mod upgrade;
mod usage;
mod walking;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use cluster::Cluster;
use load::{Load, Made, lost_and_duplicated};

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// How many nodes there are.
const NODES: usize = 3;

/// An animal.
fn rex() -> Value {
    json!({"name": "Rex", "categoryId": 1})
}

/// Waits for the next minute unless the current one has this much time left: what must happen in one window has to fit into it.
fn ensure_minute_left(needed: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the nodes use the same clock")]
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock");
    let left = Duration::from_millis(
        60_000 - u64::try_from(since_epoch.as_millis() % 60_000).expect("small"),
    );
    if left < needed {
        std::thread::sleep(left + Duration::from_millis(50));
    }
}
