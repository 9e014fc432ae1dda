//! Runs reads that may take a long time on another thread, and limits how many run and wait.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::api::ApiError;
use crate::http::catch_panic;
use crate::mutex::lock;
use crate::store::{self, StoreError};

/// A client can send more than run as fast as it likes, so this is no error in the log.
const TOO_MANY: &str = "Too many long lists are being read. Try again in a moment.";

/// How many requests may wait for such a read. More could take every connection of the admin listener: one that waits for the server is
/// never evicted, so those of health checks would be rejected.
const MAX_READS: usize = 16;

/// How many reads run at a time: the other cores are left to requests.
const MAX_RUNNING: usize = 2;

struct Limits {
    reads: Semaphore,
    running: Semaphore,
}

impl Limits {
    const fn new() -> Self {
        Self {
            reads: Semaphore::const_new(MAX_READS),
            running: Semaphore::const_new(MAX_RUNNING),
        }
    }
}

/// Reads on another thread: SQLite reads on the calling one, and would delay metrics and health checks. The read holds its slot: the
/// request that waits for it may be cancelled.
pub(super) async fn off_thread<T: Send + 'static>(
    read: impl AsyncFnOnce() -> store::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    static LIMITS: Limits = Limits::new();
    within(&LIMITS, read).await
}

async fn within<T: Send + 'static>(
    limits: &'static Limits,
    read: impl AsyncFnOnce() -> store::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let too_many = |_| ApiError::UnavailableWithMessage(TOO_MANY.to_owned());
    let _place = limits.reads.try_acquire().map_err(too_many)?;
    let failed = |error: &dyn std::fmt::Display| StoreError::Failed(error.to_string());
    let slot = limits.running.acquire().await;
    let slot = slot.map_err(|error| failed(&error))?;
    let slot = Arc::new(Mutex::new(Some(slot)));
    let (runtime, its_slot) = (Handle::current(), Arc::clone(&slot));
    let reading = pin!(async {
        // Not `run_blocking`: the shutdown waits for reads.
        tokio::task::spawn_blocking(move || {
            let _slot = lock(&its_slot).take()?;
            Some(runtime.block_on(read()))
        })
        .await
    });
    // tokio panics if the system cannot start a thread, and keeps the read, which must neither keep the slot nor run later.
    let read = catch_panic(reading).await.map_err(|panic| {
        lock(&slot).take();
        failed(&panic)
    })?;
    let read = read.map_err(|error| failed(&error))?;
    Ok(read.unwrap_or_else(|| Err(failed(&"no slot")))?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;

    #[test]
    fn a_read_for_which_there_is_no_thread_fails_and_takes_no_slot() {
        static LIMITS: Limits = Limits::new();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        // No system has room for such a stack.
        let runtime = runtime.thread_stack_size(1 << 60).build().unwrap();
        for _ in 0..2 * MAX_RUNNING {
            let read = runtime.block_on(within(&LIMITS, async || Ok(())));
            assert!(matches!(read, Err(ApiError::Internal { .. })), "{read:?}");
        }
        assert_eq!(LIMITS.running.available_permits(), MAX_RUNNING);
    }

    #[tokio::test]
    async fn of_many_slow_reads_only_some_wait() {
        static LIMITS: Limits = Limits::new();
        let read = async || {
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        };
        let done = join_all((0..64).map(|_| within(&LIMITS, read))).await;
        let rejected = done.iter().filter_map(|done| done.as_ref().err());
        let rejected: Vec<_> = rejected.collect();
        assert_eq!(rejected.len(), 64 - MAX_READS);
        assert!(rejected.iter().all(|error| error.cause().is_none()));
        assert!(within(&LIMITS, read).await.is_ok());
    }
}
