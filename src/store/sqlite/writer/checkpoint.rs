//! Moves the write-ahead log into the database file, and keeps room on the disk for that.

use rusqlite::Row;

use super::super::error::is_fatal;
use super::super::job::Job;
use super::super::room;
use super::disk_full::or_disk_full;
use super::{FatalError, WriteLoop};
use crate::store::contract::StoreError;

impl WriteLoop {
    /// Checkpoints the write-ahead log. After a temporary failure the next checkpoint includes the rest.
    pub(super) fn checkpoint(&self) -> rusqlite::Result<()> {
        match self.try_checkpoint() {
            Err(error) if is_fatal(&error) => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn try_checkpoint(&self) -> rusqlite::Result<()> {
        let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
        // Whether it was locked, the pages of the log, and how many of them are in the file.
        let pages = |row: &Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        match self.connection.query_row(checkpoint, (), pages) {
            // Another process is moving it.
            Ok((-1, _)) => Ok(()),
            Ok((log, moved)) => {
                self.is_log_left.set(log != moved);
                Ok(())
            }
            Err(error) => {
                self.is_log_left.set(true);
                Err(or_disk_full(error, self.files.data.first(), &self.path))
            }
        }
    }

    /// Rejects the writes of a batch for which the disk has no room, and returns the others.
    pub(super) fn with_room(&self, batch: Vec<Job>) -> std::result::Result<Vec<Job>, FatalError> {
        let (creations, others): (Vec<Job>, _) = batch.into_iter().partition(Job::is_creation);
        let mut rest = Vec::new();
        for (jobs, more) in [(creations, room::FOR_CREATIONS), (others, room::FOR_OTHERS)] {
            if jobs.is_empty() {
                continue;
            }
            match self.check_room(more) {
                Ok(()) => rest.extend(jobs),
                Err(error) => {
                    self.record_failure(&error, jobs.iter().any(Job::is_creation));
                    // Nothing was written, whatever the error is.
                    let failure = StoreError::Unavailable(error.to_string());
                    Job::reply_all(jobs, &Err(failure));
                    if is_fatal(&error) {
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(rest)
    }

    /// Fails if a part of the write-ahead log is left, and the disk has no room to move it later and for this much more.
    fn check_room(&self, more: u64) -> rusqlite::Result<()> {
        let check = || match self.is_log_left.get() {
            true => room::check(&self.connection, &self.path, more, 0),
            false => Ok(()),
        };
        check().or_else(|_| {
            // The reader that needed it may have ended.
            self.checkpoint()?;
            check()
        })
    }
}
