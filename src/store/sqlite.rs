//! The embedded engine: one SQLite file in WAL mode, one writer thread, a few readers.
//! Writers and readers do not wait for each other.

mod backup;
mod backup_folder;
mod connect;
mod copy;
mod creation;
mod discard;
mod error;
mod files;
mod identity;
mod import;
mod import_wait;
mod inspect;
mod job;
mod keys;
mod lock;
mod lock_purpose;
mod lock_wait;
mod migrations;
mod open;
mod open_error;
mod orders;
mod permission;
mod pets;
mod reactivated_keys;
mod readers;
mod restore;
mod restore_error;
mod restore_source;
mod room;
mod row;
mod second_name;
mod stamp;
mod sweep;
mod usage;
mod wal_mode;
mod writer;

use std::path::Path;

use rusqlite::Connection;

pub use backup::{BackupError, BackupProgress, back_up};
pub use backup_folder::BackupFolder;
pub(crate) use copy::{SqliteSession, is_same_file};
pub use files::{belongs_to_database, is_database};
pub(super) use import::SqliteImport;
pub(crate) use lock_wait::COMMAND_LOCK_TIMEOUT;
pub use reactivated_keys::{ReactivatedKey, ReactivatedKeys};
pub use restore::{Restore, Restored};
pub use restore_error::RestoreError;

use super::contract::{DeploymentId, FormatChange, Mode, Result, Revisions};
use super::writer::WriterMonitor;
use identity::FileIdentity;
use lock::FileLock;
use open_error::OpenError;
use readers::Readers;
use writer::SqliteWriter;

pub(crate) use migrations::CURRENT_FORMAT;

pub(crate) struct Sqlite {
    // Dropped before the writer, which checkpoints the write-ahead log when it is the last connection.
    readers: Readers,
    writer: SqliteWriter,
    /// The database, if this process has created it.
    created: Option<Box<FileIdentity>>,
    // Dropped last.
    _lock: Option<FileLock>,
}

impl Sqlite {
    /// Opens the file at `path`, or rejects it without touching it. At most `max_waiting` creations wait. With a `notice` it waits
    /// for locks, as commands do.
    pub(crate) fn open(
        path: &Path,
        mode: Mode,
        max_waiting: usize,
        notice: Option<fn()>,
    ) -> std::result::Result<(Self, FormatChange), OpenError> {
        let opened =
            open::open(path, mode, notice).map_err(|error| permission::explain(path, error))?;
        let engine = Self {
            readers: Readers::new(path, opened.writer.is_none()),
            writer: SqliteWriter::start(path, opened.writer, opened.files, max_waiting)?,
            created: opened.created.map(Box::new),
            _lock: opened.lock,
        };
        if notice.is_some() {
            // A command waits for an import as long as for any other process.
            engine.writer.monitor.state.stop_extending_import_wait();
        }
        Ok((engine, opened.format_change))
    }

    /// Closes the database, and removes it if this process has created it and nobody has used it since.
    pub(crate) fn discard(self) {
        let created = self.created.clone();
        drop(self);
        if let Some(created) = created {
            discard::remove_unused(&created);
        }
    }

    pub(crate) fn writer(&self) -> &WriterMonitor {
        &self.writer.monitor
    }

    /// The size of the write-ahead log, which is 0 if there is none.
    pub(crate) fn wal_bytes(&self) -> u64 {
        let wal = connect::sibling(&self.readers.path, "-wal");
        std::fs::metadata(wal).map_or(0, |wal| wal.len())
    }

    pub(crate) async fn deployment(&self) -> Result<DeploymentId> {
        self.read(|connection| {
            let id = connection.query_row("SELECT id FROM deployment", (), |row| row.get(0));
            id.map(DeploymentId)
        })
    }

    pub(crate) async fn revisions(&self) -> Result<Revisions> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT (SELECT number FROM revisions WHERE what = 'pets'),
                            (SELECT number FROM revisions WHERE what = 'api_keys')",
                )?
                .query_row((), |row| {
                    Ok(Revisions {
                        pets: row.get(0)?,
                        keys: row.get(1)?,
                        // All processes that use the file have the clock of this machine.
                        time: None,
                        connected_at: None,
                    })
                })
        })
    }

    pub(crate) async fn ready(&self) -> Result<()> {
        self.read(|connection| {
            connection.query_row("SELECT 1 FROM revisions LIMIT 1", (), |_| Ok(()))
        })
    }

    fn read<T>(&self, read: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        Ok(self.readers.with(|connection| read(connection))?)
    }

    /// Runs `write` in the next transaction, and returns when that is committed.
    async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer.run(write, false).await
    }
}
