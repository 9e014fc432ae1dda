//! The meaning of SQLite's errors.

use rusqlite::{Error, ErrorCode, ffi};
use rustix::process::{Resource, getrlimit};

use crate::store::contract::StoreError;

/// Converts an error to one of the contract.
pub(super) fn store_error(error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        _ if is_busy(error) => StoreError::Unavailable(
            "waited too long for the database lock, which another process holds".into(),
        ),
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(error.to_string()),
        _ => StoreError::Failed(describe(error)),
    }
}

/// Converts an error of a commit. After a sync that failed, the commit may be in the write-ahead log, and then the next process
/// finds it.
pub(super) fn commit_error(error: &Error) -> StoreError {
    match is_fatal(error) {
        true => StoreError::Unconfirmed(describe(error)),
        false => store_error(error),
    }
}

/// The text of an error. SQLite does not say why a file could not be written: if the size of files is limited, that may be the reason.
pub(super) fn describe(error: &Error) -> String {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) => {
            format!("{error}; perhaps a file reached the limit of {limit} bytes (ulimit -f)")
        }
        _ => error.to_string(),
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        store_error(&error)
    }
}

/// The reason of a failed write, for readiness: anyone may see it.
pub(super) fn public_reason(error: &Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "disk full",
        _ if is_busy(error) => "locked by another process",
        _ => "writes fail: see the log",
    }
}

/// Whether it waited too long for the lock that another process holds.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Whether the file or the disk can no longer be trusted: a second sync may succeed although the first one lost data.
pub(super) fn is_fatal(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
        )
    )
}

/// Whether a write failed, and not a sync: nothing that was written before is in doubt.
pub(super) fn is_write_failure(error: &Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(ffi::SQLITE_IOERR_WRITE)
}

/// The same error, whose text begins with what failed.
pub(super) fn with_context(failed: &str, error: Error) -> Error {
    let (code, text) = match error {
        Error::SqliteFailure(code, _) => (code, error.to_string()),
        // Its own text repeats the whole script.
        Error::SqlInputError {
            error: code, msg, ..
        } => (code, msg),
        other => return other,
    };
    Error::SqliteFailure(code, Some(format!("{failed}: {text}")))
}

/// The error of a write for which there was no space, for this reason.
pub(super) fn disk_full(reason: String) -> Error {
    Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), Some(reason))
}
