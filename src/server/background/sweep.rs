//! Deletes records that are too old to be needed.

use super::super::Shared;
use crate::store::{self, Retry};

/// Deletes the records of creations that can no longer be retried.
pub(super) async fn run(shared: &Shared) -> store::Result<()> {
    let Shared { store, clock, .. } = shared;
    store.forget_retries(clock.now().before(Retry::KEPT)).await
}
