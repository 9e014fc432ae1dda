//! The identity of a file. One that is moved or removed stays open, and what is written to it is lost.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rustix::process::{Resource, getrlimit};

use super::error::commit_error;
use crate::store::contract::StoreError;

/// A file, and its path. While a process has it open, the number of its inode is not reused; this does not keep it open.
#[derive(Clone, Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    /// Whether the path was a symbolic link. If a file was replaced by a link to it, other processes look for the files next to it in
    /// another place.
    is_link: bool,
    device: u64,
    inode: u64,
}

/// The files that a writer has open.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    /// The files that are written. The first is the database, by checkpoints, and the last is the write-ahead log, by commits: the
    /// writer relies on that. If the path is a symbolic link, the file that it leads to is in between.
    pub(super) data: Vec<FileIdentity>,
    /// What keeps other processes from writing at the same time: SQLite's shared memory, and the lock of a server.
    pub(super) locks: Vec<FileIdentity>,
}

impl FileIdentity {
    /// The identity of the file with this metadata, opened at this path.
    pub(super) fn new(path: PathBuf, file: &Metadata) -> Self {
        Self {
            is_link: path.is_symlink(),
            path,
            device: file.dev(),
            inode: file.ino(),
        }
    }

    pub(super) fn at(path: PathBuf) -> io::Result<Self> {
        let file = std::fs::metadata(&path)?;
        Ok(Self::new(path, &file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether both are the same file, possibly under different names.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether it is as large as this process may make files (`ulimit -f`).
    pub(super) fn is_at_limit(&self) -> bool {
        let limit = getrlimit(Resource::Fsize).current;
        let length = std::fs::metadata(&self.path).map(|file| file.len());
        let both = limit.zip(length.ok());
        both.is_some_and(|(limit, length)| length >= limit)
    }

    /// Whether the file is still at its path. If that cannot be determined, because a folder may not be entered, it counts as there.
    pub(super) fn is_in_place(&self) -> bool {
        let found = match self.is_link {
            true => std::fs::metadata(&self.path),
            false => std::fs::symlink_metadata(&self.path),
        };
        match found {
            Ok(file) => (file.dev(), file.ino()) == (self.device, self.inode),
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }
}

/// A file that is not at its path any more. What is written to it is lost.
#[derive(Debug, thiserror::Error)]
#[error("{} was moved or removed while it was in use", .0.display())]
pub(super) struct Moved(PathBuf);

pub(super) fn check_in_place<'a>(
    files: impl IntoIterator<Item = &'a FileIdentity>,
) -> Result<(), Moved> {
    let moved = files.into_iter().find(|file| !file.is_in_place());
    moved.map_or(Ok(()), |file| Err(Moved(file.path.clone())))
}

/// Commits the transaction of a connection that has these files open.
pub(super) fn commit_in_place(
    connection: &Connection,
    data: &[FileIdentity],
) -> Result<(), StoreError> {
    let check = || check_in_place(data).map_err(|moved| moved.to_string());
    check().map_err(StoreError::Failed)?;
    let committed = connection.execute_batch("COMMIT");
    committed.map_err(|error| commit_error(&error))?;
    // What is committed to a file that was moved, or to its log, is lost.
    check().map_err(StoreError::Unconfirmed)
}
