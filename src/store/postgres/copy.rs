//! A database on PostgreSQL as the source and as the target of a copy.

use std::error::Error;
use std::pin::Pin;
use std::time::Duration;

use anyhow::anyhow;
use bytes::BytesMut;
use futures_util::TryStreamExt;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSqlOwned, IsNull, ToSql, Type, to_sql_checked};

use super::engine::Postgres;
use super::error::PgError;
use super::import;
use super::nodes::{ALIVE_MILLIS, COUNT_ALIVE, LOCK_NODES};
use super::pool::{Lease, SqlValue};
use super::timeout::with_timeout;
use super::unlimited::{NO_LIMITS, detect_disconnect};
use crate::store::contract::{
    CHUNK_ROWS, ColumnType, LastIds, Mode, PostgresUrl, Result as StoreResult, Row,
    TABLES_WITH_COUNTER, Table, Value,
};

/// How long a server has to end a copy that was interrupted.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection in a transaction: a snapshot of the source, or what is written to the target. If it is dropped before the commit,
/// PostgreSQL rolls the transaction back.
pub(crate) struct PgSession {
    lease: Lease,
    // Dropped last: it runs the connection.
    engine: Postgres,
}

impl PgSession {
    pub(crate) async fn source(url: &PostgresUrl) -> anyhow::Result<Self> {
        let session = Self::connect(url, Mode::Copy { create: false }).await?;
        let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ";
        session.begin(session.lease.batch_execute(snapshot)).await?;
        Ok(session)
    }

    /// Begins to write a database, which is created first if it is missing. None if it is the source, by whatever name.
    pub(crate) async fn target(
        url: &PostgresUrl,
        source: Option<&Self>,
    ) -> anyhow::Result<Option<Self>> {
        let session = Self::connect(url, Mode::Copy { create: true }).await?;
        if let Some(source) = source
            && source.deployment().await? == session.deployment().await?
            && session.is_locked().await?
        {
            return Ok(None);
        }
        // An import at the same time would wait for the counter, and the copy for the IDs that the import has inserted.
        session.begin(import::begin_locked(&session.lease)).await?;
        Ok(Some(session))
    }

    async fn connect(url: &PostgresUrl, mode: Mode) -> anyhow::Result<Self> {
        let (engine, _) = Postgres::open(url, mode, 1).await?;
        let lease = engine.pool.borrow().await?;
        detect_disconnect(&lease).await;
        Ok(Self { engine, lease })
    }

    async fn begin(
        &self,
        beginning: impl Future<Output = Result<(), tokio_postgres::Error>>,
    ) -> anyhow::Result<()> {
        // Until the end nobody adds an animal, an order or a key: a node that is started waits to be registered, and if that times
        // out and it serves unregistered, its creations are rejected. Each session is idle while the other one works.
        let script = format!(
            "SELECT number FROM counters ORDER BY what FOR UPDATE; {NO_LIMITS}; SET LOCAL idle_in_transaction_session_timeout = 0"
        );
        let begun = async {
            beginning.await?;
            self.lease.batch_execute(&script).await
        };
        begun.await.map_err(|error| match error.code() {
            Some(
                &SqlState::QUERY_CANCELED
                | &SqlState::LOCK_NOT_AVAILABLE
                | &SqlState::T_R_SERIALIZATION_FAILURE,
            ) => {
                anyhow!("another process is writing to it: try again when that has ended")
            }
            _ => PgError::from(error).into(),
        })
    }

    async fn deployment(&self) -> StoreResult<String> {
        self.value("SELECT id FROM deployment", &[]).await
    }

    /// Whether another session holds the lock that [`PgSession::begin`] takes: the source, if it is the same database. The ID of the
    /// deployment alone does not show that, because an earlier copy has the same.
    async fn is_locked(&self) -> StoreResult<bool> {
        match self
            .lease
            .query_one(&format!("{LOCK_NODES} NOWAIT"), &[])
            .await
        {
            Ok(_) => Ok(false),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(true),
            Err(error) => Err(PgError::from(error).into()),
        }
    }

    pub(crate) async fn execute(&self, script: &str) -> StoreResult<()> {
        let executed = self.lease.batch_execute(script).await;
        Ok(executed.map_err(PgError::from)?)
    }

    async fn value<T: FromSqlOwned>(&self, sql: &str, values: &[SqlValue<'_>]) -> StoreResult<T> {
        let row = self.lease.query_one(sql, values).await;
        let row = row.map_err(PgError::from)?;
        Ok(row.try_get(0).map_err(PgError::from)?)
    }

    pub(crate) async fn nodes(&self) -> StoreResult<i64> {
        self.value(COUNT_ALIVE, &[&ALIVE_MILLIS]).await
    }

    pub(crate) async fn count(&self, table: &Table) -> StoreResult<u64> {
        let sql = format!("SELECT count(*) FROM {}", table.name);
        Ok(self.value::<i64>(&sql, &[]).await?.unsigned_abs())
    }

    pub(crate) async fn each(
        &self,
        table: &Table,
        mut chunk: impl AsyncFnMut(Vec<Row>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let nothing: [i64; 0] = [];
        let found = self.lease.query_raw(&table.select(), nothing).await;
        let mut found = Box::pin(found.map_err(PgError::from)?);
        let mut rows = Vec::with_capacity(CHUNK_ROWS.into());
        while let Some(row) = found.try_next().await.map_err(PgError::from)? {
            let value =
                |(column, (_, kind)): (usize, &(&str, ColumnType))| read(&row, column, *kind);
            let values: Result<Row, _> = table.columns.iter().enumerate().map(value).collect();
            rows.push(values.map_err(PgError::from)?);
            if rows.len() == usize::from(CHUNK_ROWS) {
                chunk(std::mem::take(&mut rows)).await?;
            }
        }
        chunk(rows).await
    }

    pub(crate) async fn last_ids(&self) -> StoreResult<LastIds> {
        let mut ids = LastIds::default();
        for (id, name) in ids.iter_mut().zip(TABLES_WITH_COUNTER) {
            let sql = format!("SELECT number FROM counters WHERE what = '{name}'");
            *id = self.value(&sql, &[]).await?;
        }
        Ok(ids)
    }

    pub(crate) async fn load(&self, table: &Table) -> StoreResult<PgLoader> {
        let columns = table.column_list();
        let sql = format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", table.name);
        let sink = self.lease.copy_in(&sql).await.map_err(PgError::from)?;
        let of_kind = |(_, kind): &(&str, ColumnType)| match kind {
            ColumnType::Int => Type::INT8,
            ColumnType::Text => Type::TEXT,
            ColumnType::Bytes => Type::BYTEA,
        };
        let types: Vec<Type> = table.columns.iter().map(of_kind).collect();
        Ok(PgLoader(Box::pin(BinaryCopyInWriter::new(sink, &types))))
    }

    pub(crate) async fn set_last_ids(&self, ids: LastIds) -> StoreResult<()> {
        let set = |(number, name): (i64, &str)| {
            format!("UPDATE counters SET number = {number} WHERE what = '{name}';")
        };
        let script: String = ids.into_iter().zip(TABLES_WITH_COUNTER).map(set).collect();
        self.execute(&script).await
    }

    /// Cancels the statement that is running, and rolls back. When the server responds to that, it has released all locks. Does not
    /// wait for a server that does not respond.
    pub(crate) async fn interrupt(&self) {
        let ending = async {
            let tls = self.engine.pool.tls();
            let cancelled = self.lease.cancel_token().cancel_query(tls).await;
            cancelled.map_err(PgError::from)?;
            // The cancellation may arrive late, and cancel the first ROLLBACK instead.
            let rolled_back = self.lease.batch_execute("ROLLBACK").await;
            match rolled_back {
                Ok(()) => Ok(()),
                Err(_) => Ok(self.lease.batch_execute("ROLLBACK").await?),
            }
        };
        // The connection is closed in any case, which has the same effect, later.
        let _ = with_timeout(INTERRUPT_TIMEOUT, ending).await;
    }

    pub(crate) async fn commit(self) -> StoreResult<()> {
        let committed = self.lease.batch_execute("COMMIT").await;
        Ok(committed.map_err(|error| PgError::from(error).of_commit())?)
    }
}

pub(crate) struct PgLoader(Pin<Box<BinaryCopyInWriter>>);

impl PgLoader {
    pub(crate) async fn write(&mut self, rows: &[Row]) -> StoreResult<()> {
        for row in rows {
            let written = self.0.as_mut().write_raw(row.iter()).await;
            written.map_err(PgError::from)?;
        }
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> StoreResult<()> {
        let finished = self.0.as_mut().finish().await;
        Ok(finished.map(drop).map_err(PgError::from)?)
    }
}

fn read(
    row: &tokio_postgres::Row,
    column: usize,
    kind: ColumnType,
) -> Result<Value, tokio_postgres::Error> {
    let value = match kind {
        ColumnType::Int => row.try_get::<_, Option<i64>>(column)?.map(Value::Int),
        ColumnType::Text => row.try_get::<_, Option<String>>(column)?.map(Value::Text),
        ColumnType::Bytes => row.try_get::<_, Option<Vec<u8>>>(column)?.map(Value::Bytes),
    };
    Ok(value.unwrap_or(Value::Null))
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}
