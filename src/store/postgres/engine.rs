//! The engine: connections, and a writer. The other files implement the rest, one per resource.

use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::{Duration, Instant};

use deadpool_postgres::Transaction;

use super::error::{PgError, PgResult, keeps_connection};
use super::pool::{Lease, Pool, SET_LIMITS};
use super::timeout::{LONG_TIMEOUT, REQUEST_TIMEOUT, statement_timeout};
use super::transaction::{MAX_ATTEMPTS, backoff, transact_within};
use super::writer::PgWriter;
use crate::clock::{ClockSample, Timestamp};
use crate::store::contract::{DeploymentId, Result, Revisions};
use crate::store::writer::WriterMonitor;

/// In place of the ID of a node.
pub(super) const UNREGISTERED: i64 = 0;

pub(crate) struct Postgres {
    pub(super) pool: Pool,
    /// For polls.
    pub(super) polls: Pool,
    /// Whether the last poll for changed keys succeeded.
    pub(super) last_poll_succeeded: AtomicBool,
    pub(super) writer: PgWriter,
    /// The ID of this node; [`UNREGISTERED`] if it has none yet, or does not serve.
    pub(super) node: AtomicI64,
}

impl Postgres {
    pub(crate) fn writer(&self) -> &WriterMonitor {
        &self.writer.monitor
    }

    pub(crate) async fn deployment(&self) -> Result<DeploymentId> {
        self.read(async |lease| {
            let row = lease.query_one("SELECT id FROM deployment", &[]).await?;
            Ok(DeploymentId(row.try_get(0)?))
        })
        .await
    }

    pub(crate) async fn revisions(&self) -> Result<Revisions> {
        Ok(read(&self.polls, REQUEST_TIMEOUT, select_revisions).await?)
    }

    pub(crate) async fn ready(&self) -> Result<()> {
        self.read(select_revisions).await.map(drop)
    }

    pub(super) async fn read<T>(&self, read: impl AsyncFn(&Lease) -> PgResult<T>) -> Result<T> {
        Ok(self::read(&self.pool, REQUEST_TIMEOUT, read).await?)
    }

    /// Reads many rows, such as the usage of all keys on a day.
    pub(super) async fn read_many<T>(
        &self,
        read: impl AsyncFn(&Lease) -> PgResult<T>,
    ) -> Result<T> {
        Ok(read_many(&self.pool, LONG_TIMEOUT, read).await?)
    }

    pub(super) async fn transact<T>(
        &self,
        timeout: Duration,
        write: impl AsyncFn(&Transaction<'_>) -> PgResult<T>,
    ) -> Result<T> {
        Ok(transact_within(timeout, &self.pool, write).await?)
    }
}

/// Reads, again after a conflict: with CockroachDB, or if the default isolation of the database is `serializable`, a read can have one.
async fn read<T>(
    pool: &Pool,
    timeout: Duration,
    read: impl AsyncFn(&Lease) -> PgResult<T>,
) -> PgResult<T> {
    let began = Instant::now();
    let mut attempt = 1;
    loop {
        let time_left = timeout.saturating_sub(began.elapsed());
        let lease = pool.borrow_within(time_left).await?;
        let pause = backoff(attempt);
        match lease.read(began, timeout, &read).await {
            Err(PgError::Conflict(_))
                if attempt < MAX_ATTEMPTS && began.elapsed() + pause < timeout =>
            {
                tokio::time::sleep(pause).await;
            }
            done => return done,
        }
        attempt += 1;
    }
}

pub(super) async fn read_many<T>(
    pool: &Pool,
    timeout: Duration,
    read: impl AsyncFn(&Lease) -> PgResult<T>,
) -> PgResult<T> {
    let reading = async |lease: &Lease| {
        let limit = statement_timeout(timeout).as_millis();
        let limit = format!("SET statement_timeout = {limit}");
        lease.batch_execute(&limit).await?;
        let value = read(lease).await;
        if keeps_connection(&value) {
            let restored = lease.batch_execute(SET_LIMITS).await;
            restored.map_err(|error| PgError::Unavailable(error.to_string()))?;
        }
        value
    };
    self::read(pool, timeout, reading).await
}

async fn select_revisions(lease: &Lease) -> PgResult<Revisions> {
    let statement = lease
        .prepare_cached(
            "SELECT (SELECT number FROM revisions WHERE what = 'pets'),
                    (SELECT number FROM revisions WHERE what = 'api_keys'),
                    (extract(epoch FROM clock_timestamp()) * 1000)::int8",
        )
        .await?;
    let sent = Instant::now();
    let row = lease.query_one(&statement, &[]).await?;
    let time = ClockSample {
        time: Timestamp::from_millis(row.try_get(2)?),
        round_trip: sent.elapsed(),
    };
    Ok(Revisions {
        pets: row.try_get(0)?,
        keys: row.try_get(1)?,
        time: Some(time),
        connected_at: lease.connected_at(),
    })
}
