//! A pool of connections that read: one for each concurrent read.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::Connection;

use super::connect;
use super::stamp::FileStamp;
use crate::mutex::lock;

const MAX_IDLE: usize = 16;

pub(super) struct Readers {
    pub(super) path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    /// Whether a file that no process has open is read as if it could not change, so that SQLite needs no files next to it.
    prefers_immutable: bool,
}

impl Readers {
    pub(super) fn new(path: &Path, prefers_immutable: bool) -> Self {
        Self {
            path: path.to_owned(),
            idle: Mutex::default(),
            prefers_immutable,
        }
    }

    /// Reads with a connection of the pool, which is discarded after an error.
    pub(super) fn with<T>(
        &self,
        read: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        if self.prefers_immutable
            && let Some(result) = self.read_immutable(&read)
        {
            return result;
        }
        let idle = || lock(&self.idle);
        let pooled = idle().pop();
        let mut connection = match pooled {
            Some(connection) => connection,
            None => connect::reader(&self.path)?,
        };
        let value = read(&mut connection)?;
        let mut idle = idle();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
        Ok(value)
    }

    /// The state of a file that no process has open, if it is to be read without creating files next to it.
    pub(super) fn immutable_stamp(&self) -> Option<FileStamp> {
        FileStamp::of_unopened(&self.path).filter(|_| self.prefers_immutable)
    }

    /// Reads a file that no process has open as if it could not change. None if it did after all: a server has been started, and
    /// the data read may be inconsistent.
    fn read_immutable<T>(
        &self,
        read: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> Option<rusqlite::Result<T>> {
        let before = FileStamp::of_unopened(&self.path)?;
        let reader = connect::immutable_reader(&self.path);
        let result = reader.and_then(|mut connection| read(&mut connection));
        (FileStamp::of_unopened(&self.path)? == before).then_some(result)
    }
}
