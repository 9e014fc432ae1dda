//! Connections that read. One is taken for each read and given back; as many are opened as read at once.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use super::connect;

/// More than this are closed again when a burst of reads is over.
const KEPT: usize = 16;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    /// Whether nothing may be left beside the file that was not there before.
    traceless: bool,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            idle: Mutex::default(),
            traceless: false,
        }
    }

    /// Readers that create nothing, not even the files that SQLite needs beside a file that may change.
    pub(super) fn traceless(path: &Path) -> Self {
        Self {
            traceless: true,
            ..Self::new(path)
        }
    }

    /// The size of the log beside the file.
    pub(super) fn wal_bytes(&self) -> u64 {
        let log = connect::beside(&self.path, "-wal");
        std::fs::metadata(log).map_or(0, |log| log.len())
    }

    /// Reads with a connection of its own. A connection that saw an error is not used again.
    pub(super) fn with<T>(
        &self,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        if self.traceless
            && let Some(result) = self.at_rest(&read)
        {
            return result;
        }
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect::reader(&self.path)?,
        };
        let value = read(&connection)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        }
        Ok(value)
    }

    /// Reads a file that no process has open as if it could not change. None if it did after all: a server has been started, and
    /// what was read may be neither what was before nor what is now.
    fn at_rest<T>(
        &self,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Option<rusqlite::Result<T>> {
        let before = self.stamp()?;
        let result = connect::at_rest(&self.path).and_then(|connection| read(&connection));
        (self.stamp()? == before).then_some(result)
    }

    /// What changes when the file is written. None while a log lies beside it.
    fn stamp(&self) -> Option<(u64, u64, i64, i64)> {
        let file = std::fs::metadata(&self.path).ok()?;
        connect::is_at_rest(&self.path)
            .then(|| (file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    }
}
