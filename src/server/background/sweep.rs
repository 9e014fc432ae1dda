//! Deletes old records.

use super::super::{Shared, pace};
use crate::store::{self, Retry, UsageBatch};

/// Deletes the records of creations that can no longer be retried, and usage by day that is not kept any longer.
pub(super) async fn run(shared: &Shared) -> store::Result<()> {
    let Shared {
        store,
        clock,
        keep_usage,
        ..
    } = shared;
    let now = clock.now();
    let before = now.before(Retry::RETENTION);
    pace::in_chunks(async || store.sweep_retries(before).await).await?;
    let first_day = now.before(*keep_usage).day();
    let batches = now.before(UsageBatch::RETENTION);
    pace::in_chunks(async || store.sweep_usage(first_day, batches).await).await
}
