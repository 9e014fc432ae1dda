//! Transactions, which are repeated after conflicts with others.

use std::time::Duration;

use deadpool_postgres::Transaction;

use super::deadline::TIMEOUT;
use super::error::{PgError, PgResult};
use super::pool::Pool;

/// How often a transaction is tried. Its deadline passes before that, as a rule.
const TRIES: u32 = 20;

/// Runs `write` in one transaction, and repeats it, on the same connection, after a conflict with others.
pub(super) async fn transact<T>(
    pool: &Pool,
    write: impl AsyncFn(&Transaction<'_>) -> PgResult<T>,
) -> PgResult<T> {
    let mut lease = pool.borrow_within(TIMEOUT).await?;
    let mut tries = 1;
    loop {
        let done = async {
            let transaction = lease.transaction().await?;
            let value = write(&transaction).await?;
            transaction.commit().await?;
            Ok(value)
        };
        match done.await {
            Ok(value) => {
                lease.release();
                return Ok(value);
            }
            Err(PgError::Conflict(_)) if tries < TRIES => tokio::time::sleep(pause(tries)).await,
            Err(error) => return Err(error),
        }
        tries += 1;
    }
}

/// The pause before the next try: longer each time, and random, so that two nodes do not collide again.
pub(super) fn pause(tries: u32) -> Duration {
    let longest = 4_u64 << tries.min(4);
    let random = u64::from(getrandom::u32().unwrap_or_default());
    Duration::from_millis(longest / 2 + random % longest)
}
