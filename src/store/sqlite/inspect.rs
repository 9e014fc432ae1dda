//! The inspection of a file before it is opened: read-only, so that a rejected file is never written to.

use std::io::ErrorKind;
use std::path::Path;

use super::connect;
use super::migrations;
use super::open_error::OpenError;
use super::second_name::{may_lack_commits, second_name};
use super::stamp::read_stable;

/// The smallest SQLite database. SQLite treats a file of one byte as empty, and would overwrite it.
pub(super) const MIN_DATABASE_BYTES: u64 = 512;

/// Up to this size a whole file is checked whenever it is opened; for larger ones that would take too long.
const MAX_FULL_CHECK_BYTES: u64 = 16 * 1024 * 1024;

/// The start of the placeholder that stands at the path of a database while a restore moves the files of a damaged one away. The rest
/// is the name under which the damaged one is kept.
pub(super) const PLACEHOLDER_START: &str = "A restore of this database was interrupted: run `animal-store restore FILE` again. It is kept as:\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileState {
    Missing,
    Empty,
    /// A database of this program, with this format.
    Format(i32),
}

/// Inspects the file at a path without creating it. Next to a write-ahead log, SQLite may create its index (`-shm`). Rejects files of
/// other programs and damaged ones.
pub(super) fn inspect(path: &Path) -> Result<FileState, OpenError> {
    // Read while another process writes to it, it may look damaged.
    read_stable(path, |is_immutable| inspect_once(path, is_immutable))
}

/// `is_immutable`: whether it is read as if it could not change, which creates no files.
fn inspect_once(path: &Path, is_immutable: bool) -> Result<FileState, OpenError> {
    let failed = |problem: &str| OpenError::cannot_open(path, problem);
    // The write-ahead log or rollback journal. Looked for first: a process that creates the database creates it afterwards.
    let log = connect::wal_or_journal(path)
        .into_iter()
        .find(|log| log.exists());
    let found = match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => Err(failed("it is a folder: specify a file in it")),
        Ok(file) if !file.is_file() => Err(failed("it is not a regular file: specify another one")),
        Ok(file) if file.len() > 0 => inspect_file(path, file.len(), is_immutable),
        Ok(_) => Ok(FileState::Empty),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(OpenError::cannot_access(path, error.to_string()))
        }
        Err(_) if path.is_symlink() => Err(OpenError::dangling(path)),
        Err(_) => Ok(FileState::Missing),
    }?;
    // SQLite would replay it into a new database, which it does not belong to.
    let orphaned = |state, log| OpenError::OrphanedLog {
        path: path.into(),
        state,
        log,
    };
    match (found, log) {
        (FileState::Missing, Some(log)) => Err(orphaned("missing", log)),
        (FileState::Empty, Some(log)) if is_without_bytes(path) => Err(orphaned("empty", log)),
        _ => Ok(found),
    }
}

/// Whether the file at a path is empty. An empty database may still have all its tables in the write-ahead log.
fn is_without_bytes(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() == 0)
}

fn inspect_file(path: &Path, length: u64, is_immutable: bool) -> Result<FileState, OpenError> {
    let open_error = |error| OpenError::of(path, &error);
    if length < MIN_DATABASE_BYTES {
        // Too small for a database that a process could have open.
        if std::fs::read(path).is_ok_and(|text| text.starts_with(PLACEHOLDER_START.as_bytes())) {
            return Err(OpenError::RestoreInterrupted(path.into()));
        }
        return Err(OpenError::NotADatabase(path.into()));
    }
    let connection = match is_immutable {
        true => connect::immutable_reader(path),
        false => connect::reader(path),
    }
    .map_err(open_error)?;
    // One snapshot for all queries: another process may be creating the tables.
    let snapshot = connection.unchecked_transaction().map_err(open_error)?;
    let pragma = |name| snapshot.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application_id = pragma("application_id").map_err(open_error)?;
    let format = pragma("user_version").map_err(open_error)?;
    let objects: i64 = snapshot
        .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
        .map_err(open_error)?;
    if application_id == 0 && format == 0 && objects == 0 {
        return Ok(FileState::Empty);
    }
    if application_id != migrations::APPLICATION_ID {
        return Err(OpenError::NotOurs(path.into()));
    }
    // A newer version's format may be anything; it is rejected for that.
    if format > migrations::CURRENT_FORMAT {
        return Ok(FileState::Format(format));
    }
    if length <= MAX_FULL_CHECK_BYTES {
        let verdict: String = snapshot
            .query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
            .map_err(open_error)?;
        if verdict != "ok" {
            return Err(OpenError::Damaged {
                path: path.into(),
                problem: verdict,
            });
        }
    } else {
        for table in ["pets", "api_keys"] {
            let ends =
                format!("SELECT (SELECT min(id) FROM {table}), (SELECT max(id) FROM {table})");
            snapshot
                .query_row(&ends, (), |_| Ok(()))
                .map_err(open_error)?;
        }
    }
    if may_lack_commits(path) {
        return Err(second_name(path).unwrap_or(OpenError::HardLinked(path.into())));
    }
    Ok(FileState::Format(format))
}
