//! Work without a time limit: migrations and copies. Migrations, and waits for either, are logged while they are in progress.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, interval_at};

use super::pool::Lease;

/// The interval of log lines about such work.
const REPORT_INTERVAL: Duration = Duration::from_secs(3);

/// Statements without a time limit: a new index on a large table can take long. If this process exits, its connection and the
/// transaction end, too; if it is suspended, the limit of idle transactions applies, so that it does not keep its locks.
pub(super) const NO_LIMITS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

/// Makes PostgreSQL end a statement within a second after the process was stopped or killed. Otherwise it would notice that only when
/// the statement ends, and would keep its locks until then. To be called outside a transaction, which an error would abort: PostgreSQL
/// before 14 does not have this setting, and some operating systems do not support it.
pub(super) async fn detect_disconnect(lease: &Lease) {
    let set = "SET client_connection_check_interval = 1000";
    let _ = lease.batch_execute(set).await;
}

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
