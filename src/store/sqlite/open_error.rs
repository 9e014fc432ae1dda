//! The errors of opening a file.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::connect::beside;
use crate::store::contract::WrongFormat;

/// Why a file was not opened, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The file is missing, or has another format.
    #[error(transparent)]
    Format(#[from] WrongFormat),
    /// The file is not a SQLite database.
    #[error("{0} is not a SQLite database: choose another file with --database sqlite:PATH")]
    NotADatabase(PathBuf),
    /// The database belongs to another program.
    #[error(
        "{0} is a SQLite database of another program: choose another file with --database sqlite:PATH"
    )]
    NotOurs(PathBuf),
    /// The file is in use by another server.
    #[error(
        "{path} is in use by {by}: stop that one first, or choose another file with --database sqlite:PATH"
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process that has it.
        by: String,
    },
    /// The file has two names.
    #[error(
        "{0} has another name (a hard link), under which SQLite would keep a second write-ahead log and lose data: remove one of the names"
    )]
    TwoNames(PathBuf),
    /// The file is gone, but not its write-ahead log.
    #[error(
        "{path} is {state}, but {log} is there: put {path} back, or remove {log} (its commits are lost)"
    )]
    OrphanedLog {
        /// The file.
        path: PathBuf,
        /// Missing or empty.
        state: &'static str,
        /// The write-ahead log.
        log: PathBuf,
    },
    /// The file is damaged.
    #[error(
        "{path} is damaged ({what}): restore it from a backup, or try the sqlite3 command .recover on a copy"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// The SQLite library is too old to be safe.
    #[error("SQLite {0} can lose commits: build with 3.51.3 or newer")]
    UnsafeSqlite(&'static str),
    /// A permission is missing.
    #[error("{0}")]
    Denied(String),
    /// Anything else.
    #[error("cannot open {path}: {what}")]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// The thread of the writer could not be started.
    #[error("cannot start the writer: {0}")]
    NoWriter(#[from] std::io::Error),
}

impl OpenError {
    /// The error for an error of SQLite.
    pub(super) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase(path),
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged {
                path,
                what: error.to_string(),
            },
            // A transaction of rollback mode that was cut short. This file has another mode; rolling it back would touch the file.
            Some(ErrorCode::ReadOnly) if beside(&path, "-journal").exists() => OpenError::Damaged {
                path,
                what: "a -journal of an unfinished transaction lies beside it".into(),
            },
            _ => OpenError::cannot_open(&path, error.to_string()),
        }
    }

    /// The error for any other reason.
    pub(super) fn cannot_open(path: &Path, what: impl Into<String>) -> Self {
        Self::CannotOpen {
            path: path.into(),
            what: what.into(),
        }
    }
}
