//! Opening the file in each mode, and the setup of the connection that writes.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::connect::{configure, give_to_owner_of_folder, resolved, sibling};
use super::discard::remove_unused;
use super::identity::{FileIdentity, OpenFiles};
use super::inspect::{FileState, inspect};
use super::lock::FileLock;
use super::lock_purpose::Purpose;
use super::open_error::OpenError;
use super::second_name::{reject_second_names, second_name};
use super::{lock_wait, migrations, wal_mode};
use crate::new_file::{NewFile, NewFileError, Overwrite, folder, remove_leftovers};
use crate::store::contract::{Database, FormatChange, Mode, WrongFormat};

/// The oldest supported version of SQLite: earlier ones can lose commits in WAL mode.
const MIN_SQLITE: i32 = 3_051_003;

/// The timeout of one attempt to write while another process writes. During an import the writer tries again.
pub(super) const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The size to which SQLite cuts the write-ahead log when it begins the log anew.
pub(super) const MAX_KEPT_LOG_BYTES: u32 = 64 * 1024 * 1024;

pub(super) struct Opened {
    /// The connection that writes, unless the file is only read.
    pub(super) writer: Option<Connection>,
    pub(super) lock: Option<FileLock>,
    pub(super) files: OpenFiles,
    pub(super) format_change: FormatChange,
    /// The file, if this process has created it.
    pub(super) created: Option<FileIdentity>,
}

/// Opens the file in this mode, or rejects it without touching it. With a `notice` it waits for locks, as commands do.
pub(super) fn open(path: &Path, mode: Mode, notice: Option<fn()>) -> Result<Opened, OpenError> {
    let mut wait = notice.map(lock_wait::Wait::new);
    loop {
        let opened = try_open(path, mode, notice);
        // From the start again: what it found has changed when a command that creates or migrates the file has ended.
        let is_busy = matches!(&opened, Err(OpenError::InUse { purpose, .. }) if *purpose == Purpose::Command);
        if !(is_busy
            && wait
                .as_mut()
                .is_some_and(lock_wait::Wait::wait_for_retry_blocking))
        {
            return opened;
        }
    }
}

fn check_version(number: i32) -> Result<(), OpenError> {
    match number < MIN_SQLITE {
        true => Err(OpenError::UnsafeSqlite(rusqlite::version())),
        false => Ok(()),
    }
}

/// Opens the file. If this mode needs the lock, it fails at once while another process has it.
fn try_open(path: &Path, mode: Mode, notice: Option<fn()>) -> Result<Opened, OpenError> {
    check_version(rusqlite::version_number())?;
    let found = inspect(path)?;
    if found == FileState::Missing && mode.creates() && !folder(path).is_dir() {
        let problem = "its folder does not exist: create it first";
        return Err(OpenError::cannot_access(path, problem));
    }
    let format = match found {
        FileState::Format(format) => Some(format),
        FileState::Missing | FileState::Empty => None,
    };
    let known = migrations::CURRENT_FORMAT.into();
    let database = Database::Sqlite(path.into());
    WrongFormat::check(&database, format.map(i64::from), known, mode)?;
    let format_change = |before: Option<i32>| FormatChange {
        before: before.map(i64::from),
        after: known,
    };
    let for_reading = |lock| Opened {
        writer: None,
        lock,
        files: OpenFiles::default(),
        format_change: format_change(format),
        created: None,
    };
    if mode == Mode::ReadOnly {
        return Ok(for_reading(None));
    }
    // A migration needs the lock: a running server may not support the format of this version.
    let is_current = format == Some(migrations::CURRENT_FORMAT);
    let purpose = match mode {
        Mode::Serve { .. } => Purpose::Server,
        Mode::Copy { .. } => Purpose::Copy,
        Mode::ReadOnly | Mode::ReadWrite | Mode::Migrate => Purpose::Command,
    };
    let keeps_lock = purpose != Purpose::Command;
    let lock = match keeps_lock || !is_current {
        true => Some(FileLock::take(path, purpose)?),
        false => None,
    };
    if lock.is_some() {
        // No other process creates or restores it now.
        let file = resolved(path);
        remove_leftovers(folder(&file), |name| file.file_name() == Some(name));
        // A backup may have several names. As the source of a copy it is only read.
        let is_backup = mode == (Mode::Copy { create: false }) && !wal_mode::is_set(path);
        if !is_backup {
            reject_second_names(path)?;
        }
    } else if second_name(path).is_some() {
        // A restore gives the file a second name for a moment. Only a process with the lock may treat that name as a leftover, so one
        // that appears after this check stays.
        match FileLock::take(path, purpose) {
            Ok(_lock) => reject_second_names(path)?,
            // While a server or a copy has the lock, no restore is in progress.
            Err(OpenError::InUse { purpose, .. }) if purpose != Purpose::Command => {
                if let Some(error) = second_name(path) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    // The source of a copy. A writer would change a backup, which is not in WAL mode.
    if mode == (Mode::Copy { create: false }) {
        return Ok(for_reading(lock));
    }
    let created = !is_current && !path.exists() && create(path)?;
    let found = FileIdentity::at(path.to_owned());
    let (connection, before) = match connect(path, mode, notice) {
        Ok(connected) => connected,
        Err(error) => {
            drop(lock);
            if let Ok(file) = found
                && created
            {
                remove_unused(&file);
            }
            return Err(error);
        }
    };
    // A restore may have replaced the file, or a failed import removed it, before this process got a lock on it. The log at this
    // path is that of the new one.
    let Some(file) = found.ok().filter(FileIdentity::is_in_place) else {
        return Err(OpenError::Replaced(path.into()));
    };
    let lock = lock.filter(|_| keeps_lock);
    let mut files =
        open_files(path).map_err(|error| OpenError::cannot_access(path, error.to_string()))?;
    files
        .locks
        .extend(lock.as_ref().map(|lock| lock.identity().clone()));
    Ok(Opened {
        writer: Some(connection),
        lock,
        files,
        format_change: format_change(before.filter(|_| !created)),
        created: created.then_some(file),
    })
}

/// A second connection that writes, of a command that has opened the file already.
pub(super) fn second_writer(path: &Path, notice: fn()) -> Result<Connection, OpenError> {
    connect(path, Mode::ReadWrite, Some(notice)).map(|(connection, _)| connection)
}

/// The database, and the files that SQLite has open next to it until the last connection is closed.
pub(super) fn open_files(path: &Path) -> std::io::Result<OpenFiles> {
    let next_to_it = |suffix| FileIdentity::at(sibling(path, suffix));
    let mut data = vec![FileIdentity::at(path.to_owned())?];
    if path.is_symlink() {
        data.push(FileIdentity::at(path.canonicalize()?)?);
    }
    data.push(next_to_it("-wal")?);
    Ok(OpenFiles {
        data,
        locks: vec![next_to_it("-shm")?],
    })
}

/// Creates the file under another name and then renames it: a process that is killed meanwhile leaves no incomplete database, and
/// the next one removes what it left. If two processes do this at the same time, only one of them creates it. Returns whether this
/// process created it.
fn create(path: &Path) -> Result<bool, OpenError> {
    let failed = |error| match error {
        NewFileError::Failed(_, error) => OpenError::cannot_access(path, error.to_string()),
        other => OpenError::cannot_open(path, other.to_string()),
    };
    // Only its owner can read it: it holds the hashes of keys. The write-ahead log gets the permissions of the file.
    let new = match NewFile::create(path, Overwrite::No) {
        Err(NewFileError::Exists(_)) => return Ok(false),
        created => created.map_err(failed)?,
    };
    give_to_owner_of_folder(new.temporary());
    let made = connect(new.temporary(), Mode::Migrate, None).and_then(|(connection, _)| {
        // Closing would do that too, but reports no error.
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let emptied = connection.query_row(checkpoint, (), |_| Ok(()));
        emptied.map_err(|error| OpenError::of(path, &error))
    });
    made.map_err(|error| match error {
        OpenError::CannotOpen { problem, .. } => OpenError::cannot_open(path, problem),
        OpenError::CannotAccess { problem, .. } => OpenError::cannot_access(path, problem),
        other => other,
    })?;
    match new.publish() {
        Err(NewFileError::Exists(_)) => Ok(false),
        published => published.map(|()| true).map_err(failed),
    }
}

/// Opens a file for writing, and creates its tables or migrates them if this mode allows that. Returns its previous format.
fn connect(
    path: &Path,
    mode: Mode,
    notice: Option<fn()>,
) -> Result<(Connection, Option<i32>), OpenError> {
    let set_up = || {
        // The file exists: SQLite would create one that others can read.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        match notice {
            Some(notice) => lock_wait::wait_as_command(&mut connection, notice)?,
            None => connection.busy_timeout(WRITE_LOCK_TIMEOUT)?,
        }
        let journal: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "journal_size_limit", MAX_KEPT_LOG_BYTES)?;
        configure(&connection)?;
        let synchronous: i32 =
            connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        let before = match mode.creates() {
            true => migrations::run(&mut connection)?,
            false => migrations::format(&connection)?,
        };
        Ok((connection, before, journal, synchronous))
    };
    let (connection, before, journal, synchronous) =
        set_up().map_err(|error| OpenError::of(path, &error))?;
    // SQLite opens a file that it may not write read-only, without an error.
    if connection.is_readonly(MAIN_DB).unwrap_or(true) {
        return Err(OpenError::cannot_access(path, "it is not writable"));
    }
    if journal != "wal" || synchronous != 2 {
        let problem =
            format!("it cannot be used safely (journal_mode {journal}, synchronous {synchronous})");
        return Err(OpenError::cannot_open(path, problem));
    }
    Ok((connection, before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_disappears_while_it_is_opened_is_not_created_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        assert!(connect(&path, Mode::Migrate, None).is_err());
        assert!(!path.exists());
    }
}
