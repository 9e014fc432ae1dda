//! The formats of the database, each made from the previous one. The row of `animal_store_format` holds the current one,
//! and is also the lock between nodes that start at the same time.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, interval_at};

use super::deadline::{LONG_TIMEOUT, with_timeout};
use super::error::{PgError, PgResult};
use super::pool::{Lease, Pool};
use super::transaction::{backoff, transact};

/// One script for each format, starting with format 1.
const SCRIPTS: [&str; 3] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_use_batches.sql"),
    include_str!("migrations/0003_deployment.sql"),
];

pub(crate) const CURRENT_FORMAT: i64 = SCRIPTS.len() as i64;

/// How often the creation of the lock is tried: two nodes that create the same table at once conflict.
const TRIES: usize = 20;

/// The interval of log lines about a migration in progress.
const REPORT: Duration = Duration::from_secs(3);

/// A migration has no time limit, and neither has waiting for that of another node: a new index on a large table can take long. If
/// this node ends, so do its connection and the transaction.
const NO_LIMITS: &str = "SET LOCAL statement_timeout = 0; \
                         SET LOCAL lock_timeout = 0; \
                         SET LOCAL idle_in_transaction_session_timeout = 0";

/// The format of the database; none if it has none of these tables.
pub(super) async fn format(pool: &Pool) -> PgResult<Option<i64>> {
    let lease = pool.borrow().await?;
    let number = number(&lease).await?;
    lease.release();
    Ok(number.filter(|number| *number != 0))
}

/// The value of the row of the format, if there is one: 0 until a first migration is done.
async fn number(lease: &Lease) -> PgResult<Option<i64>> {
    let table = "SELECT to_regclass('animal_store_format')::text";
    let table: Option<String> = lease.query_one(table, &[]).await?.try_get(0)?;
    if table.is_none() {
        return Ok(None);
    }
    let rows = lease
        .query("SELECT format FROM animal_store_format WHERE id = 1", &[])
        .await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// Migrates the database to the current format, and returns the previous one.
pub(super) async fn run(pool: &Pool) -> PgResult<Option<i64>> {
    let mut tries = 1;
    while let Err(error) = with_timeout(LONG_TIMEOUT, create_lock(pool)).await {
        let is_temporary = matches!(
            error,
            PgError::Conflict(_) | PgError::Taken(_) | PgError::Failed(_)
        );
        if !is_temporary || tries == TRIES {
            return Err(error);
        }
        tries += 1;
        tokio::time::sleep(backoff(3)).await;
    }
    transact(pool, async |transaction| {
        transaction.batch_execute(NO_LIMITS).await?;
        let lock = "SELECT format FROM animal_store_format WHERE id = 1 FOR UPDATE";
        let waiting = "waiting for another node, which is migrating the database";
        let row = reporting(waiting, transaction.query_one(lock, &[])).await?;
        let before: i64 = row.try_get(0)?;
        if before > CURRENT_FORMAT {
            return Err(PgError::Failed(format!(
                "the database has format {before}, and this version knows formats up to {CURRENT_FORMAT}: use a newer animal-store"
            )));
        }
        for (script, format) in SCRIPTS.iter().zip(1_i64..) {
            if format > before {
                let migrating = format!("migrating the database to format {format}");
                reporting(&migrating, transaction.batch_execute(script)).await?;
            }
        }
        transaction
            .execute("UPDATE animal_store_format SET format = $1 WHERE id = 1", &[&CURRENT_FORMAT])
            .await?;
        Ok(Some(before).filter(|before| *before != 0))
    })
    .await
}

/// Waits for `work`, and logs every few seconds that it is in progress.
async fn reporting<T>(what: &str, work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let mut work = pin!(work);
    let mut ticks = interval_at(began + REPORT, REPORT);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => tracing::info!(seconds = began.elapsed().as_secs(), "{what}"),
        }
    }
}

/// Creates the row that is the lock, if it is missing.
async fn create_lock(pool: &Pool) -> PgResult<()> {
    let lease = pool.borrow().await?;
    // Only where it is missing: another node that migrates may have locked it.
    if number(&lease).await?.is_none() {
        lease
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS animal_store_format
                     (id BIGINT PRIMARY KEY CHECK (id = 1), format BIGINT NOT NULL)",
            )
            .await?;
        lease
            .batch_execute(
                "INSERT INTO animal_store_format VALUES (1, 0) ON CONFLICT (id) DO NOTHING",
            )
            .await?;
    }
    lease.release();
    Ok(())
}
