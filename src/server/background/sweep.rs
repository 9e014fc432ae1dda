//! Deletes records that are too old to be needed.

use super::super::{Shared, pace};
use crate::store::{self, Retry};

/// Deletes the records of creations that can no longer be retried.
pub(super) async fn run(shared: &Shared) -> store::Result<()> {
    let Shared { store, clock, .. } = shared;
    let before = clock.now().before(Retry::KEPT);
    pace::in_chunks(async || store.sweep_retries(before).await).await
}
