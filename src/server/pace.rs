//! Work in chunks with pauses: after each chunk it pauses for as long as the chunk took, so that requests that need the same
//! writer have at least half of its time.

use std::time::{Duration, Instant};

use crate::store;

/// The shortest pause: writes that arrive right after a commit are queued before the next chunk.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// The longest pause. A chunk takes longer than this only if the store is slow, and then a longer pause does not help.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Runs chunks while they return `true`, which means that there may be more. Ends when one returns `false` or fails.
pub(super) async fn in_chunks(
    mut chunk: impl AsyncFnMut() -> store::Result<bool>,
) -> store::Result<()> {
    loop {
        let began = Instant::now();
        if !chunk().await? {
            return Ok(());
        }
        tokio::time::sleep(began.elapsed().clamp(MIN_PAUSE, MAX_PAUSE)).await;
    }
}
