//! Backups of a file that is in use: one snapshot of it, in a new file that is checked before it gets its name. No lock of the
//! server is taken, and no writer waits; the write-ahead log grows meanwhile, because the snapshot is needed until the end.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::anyhow;
use rusqlite::{Connection, ErrorCode};

use super::connect;
use super::error::describe;
use super::files::belongs_to_database;
use super::inspect::{FileState, inspect};
use super::open_error::OpenError;
use super::permission;
use super::readers::Readers;
use crate::new_file::{NewFile, NewFileError, Overwrite};

/// The interval between two calls of the progress handler, in instructions of SQLite's virtual machine: a few hundred rows.
const PROGRESS_INTERVAL: i32 = 1_000;

/// How far the priority of a backup is lowered. With the lowest one, 19, a backup beside a busy server took 45 times as long
/// (docs/decisions.md).
const NICENESS: i32 = 10;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file to write is unsuitable, or could not be written.
    #[error(transparent)]
    File(#[from] NewFileError),
    /// The file to write is, or may be, a database in use.
    #[error("{0} {1}: choose another name for the backup")]
    InUse(PathBuf, &'static str),
    /// It was interrupted before the backup had its name.
    #[error("interrupted")]
    Interrupted,
    /// The database is unsuitable, damaged or cannot be read, or the copy failed.
    #[error(transparent)]
    Other(anyhow::Error),
}

/// A backup, or its restoration, as others see it while it runs.
#[derive(Default)]
pub struct BackupProgress {
    /// The size that the backup will have, approximately; 0 until it is known.
    total: AtomicU64,
    copy: OnceLock<PathBuf>,
    is_interrupted: Arc<AtomicBool>,
}

impl BackupProgress {
    /// The bytes written, and the approximate number of all, once that is known.
    pub fn bytes(&self) -> Option<(u64, u64)> {
        let written = self.copy.get()?.metadata().ok()?.len();
        match self.total.load(Ordering::Relaxed) {
            0 => None,
            total => Some((written.min(total), total)),
        }
    }

    /// Makes the backup fail soon.
    pub fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    /// Records the file that is written, and the size that it will have.
    pub(super) fn begin(&self, copy: &Path, total: u64) {
        self.copy.get_or_init(|| copy.into());
        self.total.store(total, Ordering::Relaxed);
    }

    /// Calls `step` regularly while a statement of this connection runs, and ends the statement after [`Self::interrupt`].
    fn watch(
        &self,
        connection: &mut Connection,
        mut step: impl FnMut() + Send + 'static,
    ) -> rusqlite::Result<()> {
        let is_interrupted = Arc::clone(&self.is_interrupted);
        let handler = move || {
            step();
            is_interrupted.load(Ordering::Relaxed)
        };
        connection.progress_handler(PROGRESS_INTERVAL, Some(handler))
    }
}

/// Writes a backup of the database at `source` to `target`, and returns its size. The database may be in use, and of any format.
/// The thread that calls it has a low priority from then on.
pub fn back_up(
    source: &Path,
    target: &Path,
    overwrite: Overwrite,
    progress: &BackupProgress,
) -> Result<u64, BackupError> {
    let (new, written) = prepare(source, target, overwrite, progress)?;
    new.publish()?;
    Ok(written.len())
}

/// Like [`back_up`], but the backup has no name yet. Returns the metadata that it will have.
pub(super) fn prepare(
    source: &Path,
    target: &Path,
    overwrite: Overwrite,
    progress: &BackupProgress,
) -> Result<(NewFile, Metadata), BackupError> {
    let rejected = |error| BackupError::Other(permission::explain(source, error).into());
    match inspect(source).map_err(rejected)? {
        FileState::Format(_) => {}
        FileState::Missing | FileState::Empty => {
            let problem = "there is no database: specify another one with --database sqlite:PATH";
            return Err(rejected(OpenError::cannot_open(source, problem)));
        }
    }
    reject_database(source, target)?;
    let new = NewFile::create(target, overwrite)?;
    let failed = |problem: String| {
        let (from, to) = (source.display(), target.display());
        BackupError::Other(anyhow!("cannot back up {from} to {to}: {problem}"))
    };
    // Requests go first: with the same priority they would wait for a processor. If the priority cannot be lowered, they wait.
    let _ = rustix::process::nice(NICENESS);
    let copied = Readers::new(source, true).with(|connection| {
        // Runs a second time if a server opened the database during the first run, which reads it as if it could not change.
        let io_failed = |error: io::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
        new.file().set_len(0).map_err(io_failed)?;
        progress.begin(new.temporary(), size(connection)?);
        let mut syncs = new.sync_in_steps().map_err(io_failed)?;
        progress.watch(connection, move || syncs.sync_growth())?;
        // Without SQLite's own locks: on NFS, they conflict with the lock that keeps the file from being removed as a leftover.
        let copy = connect::uri(new.temporary(), "nolock=1");
        connection.execute("VACUUM INTO ?1", [copy]).map(drop)
    });
    let failed_in_sqlite = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => BackupError::Interrupted,
        _ => failed(describe(&error)),
    };
    copied.map_err(failed_in_sqlite)?;
    new.sync()?;
    let verdict = check(new.temporary(), progress).map_err(failed_in_sqlite)?;
    if verdict != "ok" {
        return Err(failed(format!("the copy is damaged ({verdict})")));
    }
    let original = source.metadata();
    new.set_access_of(&original.map_err(|error| failed(error.to_string()))?)?;
    let written = new.file().metadata();
    let written = written.map_err(|error| failed(error.to_string()))?;
    Ok((new, written))
}

/// Rejects a target that is the database itself or one of its files, and one with a write-ahead log or a journal next to it,
/// which SQLite would replay into the backup.
fn reject_database(source: &Path, target: &Path) -> Result<(), BackupError> {
    let in_use = |reason| Err(BackupError::InUse(target.into(), reason));
    if belongs_to_database(source, target) {
        return in_use("belongs to the database itself");
    }
    if connect::has_wal_or_journal(target) {
        return in_use("has a -wal or -journal next to it, as a database in use has");
    }
    Ok(())
}

/// The size of the database without its free pages.
pub(super) fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
    let pages = pragma("page_count")?.saturating_sub(pragma("freelist_count")?);
    Ok(u64::from(pages) * u64::from(pragma("page_size")?))
}

/// The first problem in a database that nobody else has open, or `ok`.
pub(super) fn check(copy: &Path, progress: &BackupProgress) -> rusqlite::Result<String> {
    let mut connection = connect::immutable_reader(copy)?;
    progress.watch(&mut connection, || {})?;
    connection.query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
}
