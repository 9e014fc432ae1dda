//! The errors of opening a file.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::connect::sibling;
use super::error::describe;
use super::lock_purpose::Purpose;
use crate::store::contract::WrongFormat;

/// Why a file was not opened, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Format(#[from] WrongFormat),
    #[error("{0} is not a SQLite database: choose another file with --database sqlite:PATH")]
    NotADatabase(PathBuf),
    #[error(
        "{0} is a SQLite database of another program: choose another file with --database sqlite:PATH"
    )]
    NotOurs(PathBuf),
    #[error("{path} is in use by {by}: {}", .purpose.advice())]
    InUse {
        path: PathBuf,
        by: String,
        purpose: Purpose,
    },
    #[error(
        "{0} has another name (a hard link), under which SQLite would keep a second write-ahead log and lose data: remove one of the names"
    )]
    HardLinked(PathBuf),
    #[error(
        "{0} is mounted without its folder, so its write-ahead log would not be next to the file, and data would be lost: mount its folder"
    )]
    Mounted(PathBuf),
    #[error(
        "{path} is {state}, but {log} is there: put {path} back, or remove {log} (its commits would be lost)"
    )]
    OrphanedLog {
        path: PathBuf,
        /// Missing or empty.
        state: &'static str,
        log: PathBuf,
    },
    #[error(
        "{path} is damaged ({problem}): restore it from a backup, or try the sqlite3 command .recover on a copy"
    )]
    Damaged { path: PathBuf, problem: String },
    #[error("a restore of {0} was interrupted: run `animal-store restore FILE` again")]
    RestoreInterrupted(PathBuf),
    #[error("{0} was replaced while it was opened: try again")]
    Replaced(PathBuf),
    #[error("SQLite {0} can lose commits: build with 3.51.3 or newer")]
    UnsafeSqlite(&'static str),
    #[error("{0}")]
    Denied(String),
    #[error("cannot open {path}: {problem}")]
    CannotOpen { path: PathBuf, problem: String },
    /// The same, perhaps because a permission is missing.
    #[error("cannot open {path}: {problem}")]
    CannotAccess { path: PathBuf, problem: String },
    #[error("cannot start the writer: {0}")]
    NoWriter(#[from] std::io::Error),
}

impl OpenError {
    pub(super) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase(path),
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged {
                path,
                problem: error.to_string(),
            },
            Some(ErrorCode::DatabaseBusy) => {
                let problem = "another process has locked it: stop it first, or try again later";
                OpenError::cannot_open(&path, problem)
            }
            // An unfinished transaction in rollback mode, which only a backup has until it is first opened for writing. Rolling it
            // back would change the file.
            Some(ErrorCode::ReadOnly) if sibling(&path, "-journal").exists() => {
                OpenError::Damaged {
                    path,
                    problem: "a -journal of an unfinished transaction is next to it".into(),
                }
            }
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                OpenError::cannot_access(&path, describe(error))
            }
            _ => OpenError::cannot_open(&path, describe(error)),
        }
    }

    /// A symbolic link to nothing.
    pub(super) fn dangling(path: &Path) -> Self {
        let problem =
            "it is a symbolic link to a file that does not exist: use the path of that file";
        Self::cannot_open(path, problem)
    }

    pub(super) fn cannot_open(path: &Path, problem: impl Into<String>) -> Self {
        Self::CannotOpen {
            path: path.into(),
            problem: problem.into(),
        }
    }

    pub(super) fn cannot_access(path: &Path, problem: impl Into<String>) -> Self {
        Self::CannotAccess {
            path: path.into(),
            problem: problem.into(),
        }
    }
}
