//! Work in chunks that gives way: between two chunks it rests for as long as the last one took, so that requests that need
//! the same writer have at least half of its time.

use std::time::{Duration, Instant};

use crate::store;

/// The shortest rest: those who wait for a commit, and come again at once when they have it, are before the next chunk.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest rest. A chunk takes longer than this only where the store is late, and then resting helps nobody.
const LONGEST: Duration = Duration::from_millis(100);

/// Does one chunk after the other until one says that it was the last, or fails.
pub(super) async fn in_chunks(
    mut chunk: impl AsyncFnMut() -> store::Result<bool>,
) -> store::Result<()> {
    loop {
        let began = Instant::now();
        if !chunk().await? {
            return Ok(());
        }
        tokio::time::sleep(began.elapsed().clamp(SHORTEST, LONGEST)).await;
    }
}
