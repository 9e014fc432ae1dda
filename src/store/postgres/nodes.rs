//! The nodes that are alive. Each has a row, and renews its time. A migration that older nodes cannot work with is rejected while
//! such a node is alive. A node that counted as dead, because it was paused or cut off from the database, may find its row
//! deleted: it registers again, or exits if the database was meanwhile migrated to a format that it does not support.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use deadpool_postgres::Transaction;

use super::counters::next_id;
use super::engine::Postgres;
use super::error::{PgError, PgResult};
use super::migrations::current_format;
use super::pool::{Executor, Pool, SqlValue};
use super::progress::{WAITING_TO_REGISTER, reporting};
use super::timeout::{REQUEST_TIMEOUT, statement_timeout, with_timeout};
use super::transaction::transact;
use crate::store::contract::{Heartbeat, Result};

/// How long a node counts as alive after its last heartbeat, in milliseconds. Several heartbeats may be late.
pub(crate) const ALIVE_MILLIS: i64 = 30_000;

/// How long a node waits until it is registered, before it starts unregistered, or tries again with its next heartbeat.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the rows of dead nodes are kept, in milliseconds.
const DEAD_NODE_RETENTION_MILLIS: i64 = 3_600_000;

/// While it is locked, no node registers.
pub(super) const LOCK_NODES: &str = "SELECT number FROM counters WHERE what = 'nodes' FOR UPDATE";

pub(super) const SELECT_FORMAT: &str = "SELECT format FROM animal_store_format WHERE id = 1";

const INSERT_NODE: &str = "INSERT INTO nodes (id, version, format, seen_at)
     VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000)::int8)";

const RENEW_NODE: &str =
    "UPDATE nodes SET seen_at = (extract(epoch FROM clock_timestamp()) * 1000)::int8 WHERE id = $1";

const DELETE_NODE: &str = "DELETE FROM nodes WHERE id = $1";

/// Deletes the nodes of formats before $1 that were not seen for $2 milliseconds.
const DELETE_DEAD: &str = "DELETE FROM nodes
     WHERE format < $1 AND seen_at <= (extract(epoch FROM clock_timestamp()) * 1000)::int8 - $2";

/// The number of nodes that were seen within the last $1 milliseconds.
pub(super) const COUNT_ALIVE: &str = "SELECT count(*) FROM nodes
     WHERE seen_at > (extract(epoch FROM clock_timestamp()) * 1000)::int8 - $1";

const OLDER_NODES: &str = "SELECT id, version FROM nodes WHERE format < $1 ORDER BY id";

/// Registers this node, and returns its ID; or the format of the database, if it is newer than this version's.
pub(super) async fn register(pool: &Pool) -> PgResult<std::result::Result<i64, i64>> {
    // PostgreSQL ends the wait before this process does, and its error is logged.
    let limit = statement_timeout(REGISTRATION_TIMEOUT).as_millis();
    let settings = format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = {limit}"
    );
    let lease = pool.borrow_within(REQUEST_TIMEOUT).await?;
    let registering = transact(lease, async |transaction| {
        transaction.batch_execute(&settings).await?;
        // First: a migration that excludes older nodes locks this row, too, so the format that is read next cannot become too new
        // before this node is registered. At another isolation level, it would be read as it was before the wait for this row.
        let id = reporting(WAITING_TO_REGISTER, next_id(transaction, "nodes")).await?;
        let format: i64 = transaction
            .query_one(SELECT_FORMAT, &[])
            .await?
            .try_get(0)?;
        if format > current_format() {
            return Ok(Err(format));
        }
        let any = i64::MAX;
        transaction
            .execute(DELETE_DEAD, &[&any, &DEAD_NODE_RETENTION_MILLIS])
            .await?;
        let version = env!("CARGO_PKG_VERSION");
        let values: [SqlValue<'_>; 3] = [&id, &version, &current_format()];
        transaction.execute(INSERT_NODE, &values).await?;
        Ok(Ok(id))
    });
    with_timeout(REGISTRATION_TIMEOUT, registering).await
}

/// Fails while a node of a format before this one is alive. Until the transaction ends, no node registers.
pub(super) async fn exclude_older(transaction: &Transaction<'_>, format: i64) -> PgResult<()> {
    transaction.query_one(LOCK_NODES, &[]).await?;
    // First: a node that comes back now waits for the end of the migration, and then finds its row deleted.
    transaction
        .execute(DELETE_DEAD, &[&format, &ALIVE_MILLIS])
        .await?;
    let rows = transaction.query(OLDER_NODES, &[&format]).await?;
    let name = |row: &tokio_postgres::Row| {
        let (id, version): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        Ok(format!("node {id} (version {version})"))
    };
    let alive = rows.iter().map(name).collect::<PgResult<Vec<_>>>()?;
    match alive.is_empty() {
        true => Ok(()),
        false => Err(PgError::Failed(format!(
            "cannot migrate to format {format}: nodes of an older version, which cannot use that format, are running: {}; shut them down first (a killed node counts as running for {} s)",
            alive.join(", "),
            ALIVE_MILLIS / 1000
        ))),
    }
}

impl Postgres {
    pub(crate) async fn heartbeat(&self) -> Result<Heartbeat> {
        let id = self.node.load(Relaxed);
        let renew = async |transaction: &Transaction<'_>| {
            transaction.execute_cached(RENEW_NODE, &[&id]).await
        };
        let renewed = self.transact(REQUEST_TIMEOUT, renew).await?;
        // Otherwise a node whose clients create nothing would report a failed creation long after an outage.
        self.writer.monitor.state.health.other_write_succeeded();
        if renewed > 0 {
            return Ok(Heartbeat::Alive);
        }
        Ok(match register(&self.pool).await? {
            Ok(id) => {
                self.node.store(id, Relaxed);
                Heartbeat::Alive
            }
            Err(format) => Heartbeat::Superseded { format },
        })
    }

    pub(crate) async fn deregister(&self) -> Result<()> {
        let id = self.node.load(Relaxed);
        self.transact(REQUEST_TIMEOUT, async |transaction| {
            transaction
                .execute_cached(DELETE_NODE, &[&id])
                .await
                .map(drop)
        })
        .await
    }
}
