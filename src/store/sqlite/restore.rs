//! A backup put in the place of a database that no server uses.
//!
//! The backup is copied next to the database, and the copy is checked, before anything changes. Then the previous database is moved
//! out of the way such that a crash at any point leaves the previous one or the new one, complete: its write-ahead log, which
//! SQLite would replay into whatever file has the name, is checkpointed into it and removed; it gets a second name (a hard link);
//! and the new one is renamed over the first. A process that has the database open, or is about to, is kept out by SQLite's own
//! exclusive lock.
//!
//! The log of a database that cannot be opened cannot be checkpointed. That one is kept with all its files, and while they are moved a
//! placeholder is at its path, which nobody mistakes for a database.

mod kept;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use rusqlite::{Connection, ErrorCode};

use super::backup::{BackupProgress, check};
use super::connect::{self, give_to_owner_of_folder, open_exclusively, with_suffix};
use super::inspect::{FileState, PLACEHOLDER_START, inspect};
use super::lock::FileLock;
use super::lock_purpose::Purpose;
use super::open_error::OpenError;
use super::permission;
use super::reactivated_keys::ReactivatedKeys;
use super::readers::Readers;
use super::restore_error::RestoreError;
use super::restore_source::{damaged, inspect_backup, inspect_source};
use super::second_name::reject_second_names;
use super::wal_mode;
use crate::clock::Timestamp;
use crate::new_file::{ChangedAccess, NewFile, NewFileError, Overwrite, folder, sync_folder};
use kept::{interrupted_name, kept_name};

/// How many bytes are copied between two checks for an interrupt.
const CHUNK_BYTES: u64 = 8 * 1024 * 1024;

/// How long other processes that have the database open have to close it.
const EXCLUSIVE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

type Result<T> = std::result::Result<T, RestoreError>;

pub struct Restored {
    /// Where the previous database is kept, if there was one; or the log of one, if that was all there was.
    pub kept: Option<PathBuf>,
    /// Keys whose secrets work again. None if the previous database could not be read.
    pub reactivated: Option<ReactivatedKeys>,
    /// What could not be kept of the owner, the group and the mode of the previous database.
    pub access: Option<ChangedAccess>,
    /// The error of the last sync: after a power failure the previous database may be back.
    pub unsynced: Option<NewFileError>,
}

/// A backup that is checked and on disk, next to the database. Nothing of the database has changed yet.
pub struct Restore {
    target: PathBuf,
    old: OldDatabase,
    new: NewFile,
    access: Option<ChangedAccess>,
    pub bytes: u64,
    /// The format of the backup, which `serve` migrates if it is an earlier one.
    pub format: i32,
    // Dropped last.
    _lock: FileLock,
}

/// The database that is replaced.
#[derive(Debug, PartialEq, Eq)]
enum OldDatabase {
    Missing,
    Readable,
    /// It cannot be opened, or its log has no database.
    Unreadable,
}

impl Restore {
    /// Takes the lock of the database at `target`, and copies the backup at `source` next to it. Fails if a server uses the database.
    pub fn prepare(source: &Path, target: &Path, progress: &BackupProgress) -> Result<Self> {
        let rejected = |error| RestoreError::Other(permission::explain(target, error).into());
        // The file itself is replaced, not a symbolic link to it.
        let real = match target.is_symlink() {
            true => target.canonicalize().map_err(|error| {
                rejected(match error.kind() {
                    ErrorKind::NotFound => OpenError::dangling(target),
                    _ => OpenError::cannot_access(target, error.to_string()),
                })
            })?,
            false => target.to_owned(),
        };
        let metadata = inspect_source(source, &real)?;
        if !folder(&real).is_dir() {
            let problem = "its folder does not exist: create it first";
            return Err(rejected(OpenError::cannot_access(target, problem)));
        }
        let lock = FileLock::take(&real, Purpose::Command).map_err(rejected)?;
        let old = inspect_old(&real).map_err(rejected)?;
        // Read here: a file that somebody creates meanwhile must not give access to the copy.
        let original = real.metadata().ok();
        // Removes names that an interrupted restore has left behind.
        let one_name = reject_second_names(&real);
        if old == OldDatabase::Readable {
            one_name.map_err(rejected)?;
        }

        let new = NewFile::create(&real, Overwrite::Yes)?;
        progress.begin(new.temporary(), metadata.len());
        let failed = |error: &dyn Display| cannot_restore(source, error);
        copy(source, &new, progress).map_err(|error| failed(&error))?;
        // A backup is not in WAL mode. SQLite would change that with a journal, and a process that is killed meanwhile would leave one,
        // with which no other process opens the file.
        wal_mode::set(new.file()).map_err(|error| failed(&error))?;
        new.sync()?;
        // What is put in place is what was checked, whatever has happened to the backup meanwhile.
        let format = inspect_backup(new.temporary(), source)?;
        let verdict = check(new.temporary(), progress).map_err(|error| failed(&error))?;
        if verdict != "ok" {
            return Err(damaged(source, &verdict));
        }
        let access = match original {
            Some(original) => new.set_access_of(&original)?,
            // Like every new database, only its owner can read it, whatever the permissions of the backup are.
            None => {
                give_to_owner_of_folder(new.temporary());
                None
            }
        };
        let bytes = new.file().metadata().map_err(|error| failed(&error))?.len();
        Ok(Self {
            target: real,
            old,
            new,
            access,
            bytes,
            format,
            _lock: lock,
        })
    }

    /// Whether there is a database, or a part of one, that it replaces.
    pub fn replaces(&self) -> bool {
        self.old != OldDatabase::Missing
    }

    /// Keys whose secrets will work again. None if the previous database cannot be read.
    pub fn reactivated(&self) -> Option<ReactivatedKeys> {
        if !self.replaces() {
            return Some(ReactivatedKeys::default());
        }
        let new = connect::immutable_reader(self.new.temporary()).ok()?;
        let readers = Readers::new(&self.target, true);
        readers.with(|old| ReactivatedKeys::find(old, &new)).ok()
    }

    fn reactivated_in(&self, old: &Connection) -> Option<ReactivatedKeys> {
        let new = connect::immutable_reader(self.new.temporary()).ok()?;
        ReactivatedKeys::find(old, &new).ok()
    }

    /// Replaces the database, which is kept under a name with this time. If it is interrupted, either nothing changes, or everything.
    pub fn put_in_place(self, now: Timestamp, progress: &BackupProgress) -> Result<Restored> {
        if progress.is_interrupted() {
            return Err(RestoreError::Interrupted);
        }
        match self.old {
            OldDatabase::Missing => {
                let unsynced = publish(self.new)?;
                Ok(Restored {
                    kept: None,
                    reactivated: Some(ReactivatedKeys::default()),
                    access: None,
                    unsynced,
                })
            }
            OldDatabase::Readable => self.replace_readable(now, progress),
            OldDatabase::Unreadable => self.replace_unreadable(now),
        }
    }

    fn replace_readable(self, now: Timestamp, progress: &BackupProgress) -> Result<Restored> {
        let connection = match open_exclusively(&self.target, EXCLUSIVE_LOCK_TIMEOUT) {
            Ok(connection) => connection,
            Err(error) if is_damage(&error) => return self.replace_unreadable(now),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                let file = self.target.display();
                return Err(self.failed(format!(
                    "another process has it open: stop it first (`fuser {file}` shows it)"
                )));
            }
            Err(error) => return Err(self.failed(error)),
        };
        // It may have waited for others.
        if progress.is_interrupted() {
            return Err(RestoreError::Interrupted);
        }
        let reactivated = self.reactivated_in(&connection);
        for log in ["-wal", "-shm"].map(|end| with_suffix(&self.target, end)) {
            self.unless_missing(std::fs::remove_file(&log))?;
        }
        // Without this, a power failure could bring the log back, next to the new database.
        self.sync_folder()?;
        let kept = kept_name(&self.target, now);
        std::fs::hard_link(&self.target, &kept).map_err(|error| self.failed(error))?;
        let published = self.sync_folder().and_then(|()| publish(self.new));
        let unsynced = published.inspect_err(|_| {
            // The previous database is still in place: removes its second name.
            let _ = reject_second_names(&self.target);
        })?;
        Ok(Restored {
            kept: Some(kept),
            reactivated,
            access: self.access,
            unsynced,
        })
    }

    fn replace_unreadable(self, now: Timestamp) -> Result<Restored> {
        let kept = match interrupted_name(&self.target) {
            Some(kept) => kept,
            None => {
                let kept = kept_name(&self.target, now);
                let placeholder = NewFile::create(&self.target, Overwrite::Yes)?;
                // The restore that continues finds the mode and the owner here.
                match self.target.metadata() {
                    Ok(original) => drop(placeholder.set_access_of(&original)?),
                    Err(_) => give_to_owner_of_folder(placeholder.temporary()),
                }
                let name = kept.file_name().unwrap_or_default().as_bytes();
                let text = [PLACEHOLDER_START.as_bytes(), name, b"\n"].concat();
                let written = placeholder.file().write_all(&text);
                written.map_err(|error| self.failed(error))?;
                self.unless_missing(std::fs::hard_link(&self.target, &kept))?;
                self.sync_folder()?;
                placeholder.publish().map_err(|error| self.failed(error))?;
                kept
            }
        };
        for end in ["-wal", "-shm", "-journal"] {
            let log = with_suffix(&self.target, end);
            self.unless_missing(std::fs::rename(log, with_suffix(&kept, end)))?;
        }
        self.sync_folder()?;
        let unsynced = publish(self.new)?;
        let files = ["", "-wal", "-journal", "-shm"].map(|end| with_suffix(&kept, end));
        Ok(Restored {
            kept: files.into_iter().find(|file| file.exists()),
            reactivated: None,
            access: self.access,
            unsynced,
        })
    }

    fn failed(&self, error: impl Display) -> RestoreError {
        cannot_restore(&self.target, error)
    }

    /// What is missing need not be moved or removed.
    fn unless_missing(&self, done: io::Result<()>) -> Result<()> {
        match done {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    fn sync_folder(&self) -> Result<()> {
        sync_folder(&self.target).map_err(|error| self.failed(error))
    }
}

/// Puts the new database in place. Returns the error of a sync that failed after that.
fn publish(new: NewFile) -> Result<Option<NewFileError>> {
    match new.publish() {
        Ok(()) => Ok(None),
        Err(error @ NewFileError::Unsynced(..)) => Ok(Some(error)),
        Err(error) => Err(error.into()),
    }
}

fn cannot_restore(file: &Path, error: impl Display) -> RestoreError {
    anyhow!("cannot restore {}: {error}", file.display()).into()
}

/// The state of the database. Rejects one that must not be replaced, such as that of another program.
fn inspect_old(target: &Path) -> std::result::Result<OldDatabase, OpenError> {
    match inspect(target) {
        Ok(FileState::Missing) => Ok(OldDatabase::Missing),
        Ok(FileState::Empty | FileState::Format(_)) => Ok(OldDatabase::Readable),
        Err(
            OpenError::Damaged { .. }
            | OpenError::NotADatabase(_)
            | OpenError::OrphanedLog { .. }
            | OpenError::RestoreInterrupted(_),
        ) => Ok(OldDatabase::Unreadable),
        Err(error) => Err(error),
    }
}

fn copy(source: &Path, new: &NewFile, progress: &BackupProgress) -> io::Result<()> {
    let mut source = File::open(source)?;
    let mut target = new.file();
    while io::copy(&mut (&mut source).take(CHUNK_BYTES), &mut target)? > 0 {
        if progress.is_interrupted() {
            return Err(ErrorKind::Interrupted.into());
        }
    }
    Ok(())
}

/// Whether the database, not the access to it, is at fault.
fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}
