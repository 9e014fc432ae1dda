//! Reads the format of the database, and runs the missing migrations. The row of `animal_store_format` holds the current format, and is
//! also the lock between nodes that start at the same time.

use super::error::{PgError, PgResult};
use super::migrations::{FIRST_FORMAT_WITH_NODES, Migration, current_format, migrations};
use super::nodes::{self, SELECT_FORMAT};
use super::pool::{Lease, Pool};
use super::progress::{WAITING_FOR_MIGRATION, reporting};
use super::timeout::{LONG_TIMEOUT, REQUEST_TIMEOUT, with_timeout};
use super::transaction::{backoff, transact};
use super::unlimited::{NO_LIMITS, detect_disconnect};

/// How many times the creation of the lock is tried: two nodes that create the same table at the same time conflict.
const MAX_ATTEMPTS: usize = 20;

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
    let rows = lease.query(SELECT_FORMAT, &[]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// Migrates the database to the current format, and returns the previous one.
pub(super) async fn run(pool: &Pool) -> PgResult<Option<i64>> {
    let mut attempt = 1;
    while let Err(error) = with_timeout(LONG_TIMEOUT, create_lock(pool)).await {
        // Nodes that create the table at the same time can get any of these.
        let may_be_a_race = matches!(
            error,
            PgError::Conflict(_) | PgError::UniqueViolation(_) | PgError::Failed(_)
        );
        if !may_be_a_race || attempt == MAX_ATTEMPTS {
            return Err(error);
        }
        attempt += 1;
        // The same short pause each time: the other node is done soon.
        tokio::time::sleep(backoff(3)).await;
    }
    let lease = pool.borrow_within(REQUEST_TIMEOUT).await?;
    detect_disconnect(&lease).await;
    transact(lease, async |transaction| {
        transaction.batch_execute(NO_LIMITS).await?;
        let lock = format!("{SELECT_FORMAT} FOR UPDATE");
        let row = reporting(WAITING_FOR_MIGRATION, transaction.query_one(&lock, &[])).await?;
        let before: i64 = row.try_get(0)?;
        let current = current_format();
        if before > current {
            return Err(PgError::Failed(format!(
                "the database has format {before}, and this version supports formats up to {current}: use a newer animal-store"
            )));
        }
        let missing = || migrations().filter(|(format, _)| *format > before);
        let breaking = |(_, migration): &(i64, Migration)| migration.breaks_older_nodes;
        if let Some((format, _)) = missing().filter(breaking).last()
            && before >= FIRST_FORMAT_WITH_NODES
        {
            nodes::exclude_older(transaction, format).await?;
        }
        for (format, migration) in missing() {
            let migrating = format!("migrating the database to format {format}");
            reporting(&migrating, transaction.batch_execute(migration.script)).await?;
        }
        transaction
            .execute("UPDATE animal_store_format SET format = $1 WHERE id = 1", &[&current])
            .await?;
        Ok(Some(before).filter(|before| *before != 0))
    })
    .await
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
