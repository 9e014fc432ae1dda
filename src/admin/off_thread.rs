//! Reads that may take a long time.

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::store::{self, StoreError};

/// Reads on another thread: SQLite reads on the calling one, and would delay metrics and health checks. Two at a time leave the
/// other cores to requests. The read holds its slot: the request that waits for it may be cancelled.
pub(super) async fn off_thread<T: Send + 'static>(
    read: impl AsyncFnOnce() -> store::Result<T> + Send + 'static,
) -> store::Result<T> {
    static SLOTS: Semaphore = Semaphore::const_new(2);
    let failed = |error: &dyn std::fmt::Display| StoreError::Failed(error.to_string());
    let slot = SLOTS.acquire().await.map_err(|error| failed(&error))?;
    let runtime = Handle::current();
    let reading = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        runtime.block_on(read())
    });
    reading.await.map_err(|error| failed(&error))?
}
