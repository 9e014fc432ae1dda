//! Work without a time limit: migrations and copies. Migrations, and waits for either, are logged while they are in progress.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, interval_at};

/// The interval of log lines about such work.
const REPORT_INTERVAL: Duration = Duration::from_secs(3);

/// Statements without a time limit: a new index on a large table can take long. If this process exits, its connection and the
/// transaction end, too; if it is suspended, the limit of idle transactions applies, so that it does not keep its locks.
pub(super) const NO_LIMITS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

pub(super) const WAITING_FOR_MIGRATION: &str =
    "waiting for another process, which is migrating the database";
pub(super) const WAITING_TO_REGISTER: &str =
    "waiting to register this node: a migration or a copy of the database may be in progress";

/// Waits for `work`, and logs every few seconds that it is in progress.
pub(super) async fn reporting<T>(message: &str, work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let mut work = pin!(work);
    let mut ticks = interval_at(began + REPORT_INTERVAL, REPORT_INTERVAL);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => tracing::info!(seconds = began.elapsed().as_secs(), "{message}"),
        }
    }
}
