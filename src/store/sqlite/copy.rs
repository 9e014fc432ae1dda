//! An embedded database as the source and as the target of a copy. Both hold the lock: no server may use the file meanwhile.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql, params_from_iter};

use super::identity::{FileIdentity, commit_in_place};
use super::lock_wait::{COMMAND_LOCK_TIMEOUT, begin_immediate};
use super::open::open_files;
use super::{Sqlite, connect};
use crate::store::contract::{
    CHUNK_ROWS, LastIds, Mode, Result, Row, TABLES_WITH_COUNTER, Table, Value,
};

/// Whether both paths name one file, or will when it is created.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| FileIdentity::at(path.to_owned());
    match (identity(one), identity(other)) {
        (Ok(one), Ok(other)) => one.is_same_file(&other),
        _ => one == other,
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(COMMAND_LOCK_TIMEOUT)?;
    connect::configure(&connection)?;
    Ok(connection)
}

/// A connection in a transaction: a snapshot of the source, or what is written to the target.
pub(crate) struct SqliteSession {
    connection: Connection,
    /// The files that are written. Empty for a source.
    data: Vec<FileIdentity>,
    // Dropped last: it has the lock.
    engine: DiscardOnDrop,
}

/// The engine of a session. If it has created its file, that is removed again when the session ends without a commit.
struct DiscardOnDrop(Option<Sqlite>);

impl Drop for DiscardOnDrop {
    fn drop(&mut self) {
        if let Some(engine) = self.0.take() {
            engine.discard();
        }
    }
}

impl SqliteSession {
    /// Begins to read a database.
    pub(crate) fn source(path: &Path) -> anyhow::Result<Self> {
        let (engine, _) = Sqlite::open(path, Mode::Copy { create: false }, 1, None)?;
        let engine = DiscardOnDrop(Some(engine));
        // Not a read-only one, which would leave behind the files that SQLite creates next to a database in WAL mode.
        let connection = open(path)?;
        connection.execute_batch("BEGIN")?;
        Ok(Self {
            connection,
            data: Vec::new(),
            engine,
        })
    }

    /// Begins to write a database, which is created first if it is missing.
    /// `notice` is called once a wait for another process that writes has lasted for a second.
    pub(crate) async fn target(path: &Path, notice: fn()) -> anyhow::Result<Self> {
        let (engine, _) = Sqlite::open(path, Mode::Copy { create: true }, 1, None)?;
        let engine = DiscardOnDrop(Some(engine));
        let connection = open(path)?;
        let data = open_files(path)?.data;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // They would give every key another revision.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        begin_immediate(&connection, notice).await?;
        connection.busy_timeout(COMMAND_LOCK_TIMEOUT)?;
        Ok(Self {
            connection,
            data,
            engine,
        })
    }

    pub(crate) async fn count(&self, table: &Table) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM {}", table.name);
        let count: i64 = self.connection.query_row(&sql, (), |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    pub(crate) async fn each(
        &self,
        table: &Table,
        mut chunk: impl AsyncFnMut(Vec<Row>) -> Result<()>,
    ) -> Result<()> {
        let mut select = self.connection.prepare(&table.select())?;
        let mut found = select.query(())?;
        let mut rows = Vec::with_capacity(CHUNK_ROWS.into());
        while let Some(row) = found.next()? {
            let values: rusqlite::Result<Row> = (0..table.columns.len())
                .map(|column| row.get(column))
                .collect();
            rows.push(values?);
            if rows.len() == usize::from(CHUNK_ROWS) {
                chunk(std::mem::take(&mut rows)).await?;
            }
        }
        chunk(rows).await
    }

    /// The counters of AUTOINCREMENT, which a table has from its first row on.
    pub(crate) async fn last_ids(&self) -> Result<LastIds> {
        let mut ids = LastIds::default();
        for (id, name) in ids.iter_mut().zip(TABLES_WITH_COUNTER) {
            let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?1";
            *id = self.connection.query_row(sql, [name], |row| row.get(0))?;
        }
        Ok(ids)
    }

    pub(crate) async fn execute(&self, script: &str) -> Result<()> {
        Ok(self.connection.execute_batch(script)?)
    }

    pub(crate) fn insert(&self, table: &Table, rows: Vec<Row>) -> Result<()> {
        let placeholders = vec!["?"; table.columns.len()].join(", ");
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({placeholders})",
            table.name,
            table.column_list()
        );
        let mut insert = self.connection.prepare_cached(&sql)?;
        for row in rows {
            insert.execute(params_from_iter(row))?;
        }
        Ok(())
    }

    pub(crate) async fn set_last_ids(&self, ids: LastIds) -> Result<()> {
        for (id, name) in ids.into_iter().zip(TABLES_WITH_COUNTER) {
            let sql = "DELETE FROM sqlite_sequence WHERE name = ?1";
            self.connection.execute(sql, [name])?;
            let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
            self.connection.execute(sql, (name, id))?;
        }
        Ok(())
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        commit_in_place(&self.connection, &self.data)?;
        drop(self.connection);
        // Taken, so that a new file is not discarded. Dropped last: it has the lock.
        drop(self.engine.0.take());
        Ok(())
    }
}

impl FromSql for Value {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Int(number),
            // No column has fractions: the tables are STRICT.
            ValueRef::Real(_) => return Err(FromSqlError::InvalidType),
            // Text that is not UTF-8, which only another program can have stored, ends the copy.
            ValueRef::Text(_) => Self::Text(value.as_str()?.to_owned()),
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_owned()),
        })
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_is_told_to_wait_for_the_copy_that_uses_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let target = async || SqliteSession::target(&path, || ()).await.unwrap();
        target().await.commit().await.unwrap();
        let advice = format!(
            "{} is in use by process {}: try again when that copy has finished",
            path.display(),
            std::process::id()
        );
        for is_target in [false, true] {
            let _copying = match is_target {
                true => target().await,
                false => SqliteSession::source(&path).unwrap(),
            };
            let serving = Sqlite::open(&path, Mode::Serve { migrate: true }, 1, None);
            assert_eq!(serving.err().unwrap().to_string(), advice);
        }
    }
}
