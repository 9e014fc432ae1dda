//! The jobs of the writer, and the channels for their results.

use std::fmt;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::creation::create;
use super::error::{is_fatal, store_error};
use crate::store::contract::{Created, Creation, Result, StoreError};
use crate::store::writer::dead;

/// A write, and the channel for its result.
pub(super) enum Job {
    Create {
        creation: Creation,
        reply: oneshot::Sender<Result<Created>>,
    },
    /// Anything else.
    Other(Box<dyn OtherJob>),
}

pub(super) trait OtherJob: Send {
    fn write(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    /// Whether the write-ahead log is checkpointed after the commit.
    fn wants_checkpoint(&self) -> bool;
    /// Replies, once it is known whether the transaction was committed.
    fn reply(self: Box<Self>, committed: Result<()>);
}

/// A job that is part of the open transaction.
pub(super) enum Written {
    Create {
        created: Created,
        reply: oneshot::Sender<Result<Created>>,
    },
    Other(Box<dyn OtherJob>),
}

impl Job {
    /// A job that runs `write`, and replies with its result.
    pub(super) fn other<T: Send + 'static>(
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        checkpoint: bool,
        reply: oneshot::Sender<Result<T>>,
    ) -> Self {
        Self::Other(Box::new(WriteJob {
            write: Some(write),
            checkpoint,
            result: None,
            reply,
        }))
    }

    pub(super) fn write(self, connection: &Connection) -> rusqlite::Result<Written> {
        match self {
            Self::Create { creation, reply } => match create(connection, creation) {
                Ok(created) => Ok(Written::Create { created, reply }),
                Err(error) => {
                    let _ = reply.send(Err(store_error(&error)));
                    Err(error)
                }
            },
            Self::Other(mut job) => {
                // A savepoint: a job that fails rolls back its own writes only.
                connection.execute_batch("SAVEPOINT job")?;
                match job.write(connection) {
                    Ok(()) => {}
                    // SQLite may have rolled back everything by itself; then there is no savepoint left.
                    Err(error) if is_fatal(&error) || connection.is_autocommit() => {
                        return Err(error);
                    }
                    Err(_) => connection.execute_batch("ROLLBACK TO job")?,
                }
                connection.execute_batch("RELEASE job")?;
                Ok(Written::Other(job))
            }
        }
    }

    pub(super) fn fail(self, error: StoreError) {
        match self {
            // A closed channel is no failure: the client has disconnected.
            Self::Create { reply, .. } => drop(reply.send(Err(error))),
            Self::Other(job) => job.reply(Err(error)),
        }
    }
}

impl Written {
    /// The outcome, if this is a creation.
    pub(super) fn created(&self) -> Option<&Created> {
        match self {
            Self::Create { created, .. } => Some(created),
            Self::Other(_) => None,
        }
    }

    pub(super) fn wants_checkpoint(&self) -> bool {
        matches!(self, Self::Other(job) if job.wants_checkpoint())
    }

    pub(super) fn reply(self, committed: Result<()>) {
        match self {
            Self::Create { created, reply } => drop(reply.send(committed.map(|()| created))),
            Self::Other(job) => job.reply(committed),
        }
    }
}

struct WriteJob<W, T> {
    write: Option<W>,
    checkpoint: bool,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<W, T> OtherJob for WriteJob<W, T>
where
    W: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Some(write) = self.write.take() else {
            return Ok(());
        };
        match write(connection) {
            Ok(value) => {
                self.result = Some(Ok(value));
                Ok(())
            }
            Err(error) => {
                self.result = Some(Err(store_error(&error)));
                Err(error)
            }
        }
    }

    fn wants_checkpoint(&self) -> bool {
        self.checkpoint
    }

    fn reply(self: Box<Self>, committed: Result<()>) {
        let result = self.result.unwrap_or_else(|| Err(dead()));
        let _ = self.reply.send(committed.and(result));
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}
