//! Transactions, which are retried after conflicts with others.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use deadpool_postgres::Transaction;

use super::error::{PgError, PgResult};
use super::pool::{Lease, Pool};
use super::timeout::{REQUEST_TIMEOUT, with_timeout};

/// Usually the deadline passes first.
pub(super) const MAX_ATTEMPTS: u32 = 20;

/// Runs `write` in one transaction, and retries it, on the same connection, after a conflict with others.
pub(super) async fn transact<T>(
    lease: Lease,
    write: impl AsyncFn(&Transaction<'_>) -> PgResult<T>,
) -> PgResult<T> {
    run_with_retries(lease, &AtomicBool::new(false), write).await
}

/// The same with this timeout, on any connection. [`PgError::Unconfirmed`] if it expires, or the connection is lost, during the commit.
pub(super) async fn transact_within<T>(
    timeout: Duration,
    pool: &Pool,
    write: impl AsyncFn(&Transaction<'_>) -> PgResult<T>,
) -> PgResult<T> {
    let is_committing = AtomicBool::new(false);
    let committing = async {
        // A server that gives no connection within the time of a request is down, however long the work may take.
        let lease = pool.borrow_within(REQUEST_TIMEOUT).await?;
        run_with_retries(lease, &is_committing, write).await
    };
    match with_timeout(timeout, committing).await {
        Err(error) if is_committing.load(Relaxed) => Err(error.of_commit()),
        done => done,
    }
}

async fn run_with_retries<T>(
    mut lease: Lease,
    is_committing: &AtomicBool,
    write: impl AsyncFn(&Transaction<'_>) -> PgResult<T>,
) -> PgResult<T> {
    let mut attempt = 1;
    loop {
        let done = async {
            let transaction = lease.transaction().await?;
            let value = write(&transaction).await?;
            is_committing.store(true, Relaxed);
            transaction.commit().await?;
            Ok(value)
        };
        match done.await {
            Ok(value) => {
                lease.release();
                return Ok(value);
            }
            Err(PgError::Conflict(_)) if attempt < MAX_ATTEMPTS => {
                is_committing.store(false, Relaxed);
                tokio::time::sleep(backoff(attempt)).await
            }
            failed => {
                lease.close_after(&failed);
                return failed;
            }
        }
        attempt += 1;
    }
}

/// The time to wait after this attempt: longer each time, with jitter, so that two nodes do not collide again.
pub(super) fn backoff(attempt: u32) -> Duration {
    let longest = 4_u64 << attempt.min(4);
    let random = u64::from(getrandom::u32().unwrap_or_default());
    Duration::from_millis(longest / 2 + random % longest)
}
