//! The errors of a restore.

use std::path::PathBuf;

use crate::new_file::NewFileError;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is the database.
    #[error("{0} is the database itself: name a backup")]
    SameFile(PathBuf),
    /// The file cannot be restored.
    #[error("{0} {1}")]
    Source(PathBuf, String),
    /// The database cannot be replaced.
    #[error(transparent)]
    Target(anyhow::Error),
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] NewFileError),
    /// It was interrupted before it changed anything.
    #[error("interrupted")]
    Interrupted,
    /// A step failed.
    #[error("cannot restore {0}: {1}")]
    Failed(PathBuf, String),
}
