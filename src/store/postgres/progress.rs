//! Log lines about work that takes long: migrations, and waits for migrations and copies.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, interval_at};

/// The interval of the log lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(3);

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
