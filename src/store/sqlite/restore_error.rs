//! The errors of a restore.

use std::path::PathBuf;

use crate::new_file::NewFileError;

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("{0} is the database itself: specify a backup")]
    SameFile(PathBuf),
    #[error(transparent)]
    File(#[from] NewFileError),
    /// It was interrupted before it changed anything.
    #[error("interrupted")]
    Interrupted,
    /// The file cannot be restored, the database cannot be replaced, or a step failed.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}
