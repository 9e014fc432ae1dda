//! The jobs of the writer, and the channels for their results.

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::creation::create;
use super::error::{is_fatal, store_error};
use crate::store::contract::{Creation, CreationOutcome, Result, StoreError};
use crate::store::writer::Reply;

type WriteFn = dyn FnOnce(&Connection) -> rusqlite::Result<()> + Send;

/// A write, and the channel for its result.
pub(super) enum Job {
    Create {
        creation: Creation,
        reply: Reply,
    },
    Other {
        write: Box<WriteFn>,
        /// Whether the write-ahead log is checkpointed after the commit.
        checkpoint: bool,
        reply: oneshot::Sender<Result<()>>,
    },
}

/// A job that is part of the open transaction.
pub(super) enum Written {
    Create {
        created: CreationOutcome,
        reply: Reply,
    },
    Other {
        checkpoint: bool,
        reply: oneshot::Sender<Result<()>>,
    },
}

/// The error of a job that fails the whole transaction, and its reply if that is still to be sent: after the failure was recorded.
pub(super) struct FailedJob {
    pub(super) error: rusqlite::Error,
    pub(super) reply: Option<Reply>,
}

impl From<rusqlite::Error> for FailedJob {
    fn from(error: rusqlite::Error) -> Self {
        let reply = None;
        Self { error, reply }
    }
}

impl Job {
    /// Begins the span of the request that waits, if one does, when the transaction of this many writes begins.
    pub(super) fn begin(&mut self, batch: usize) {
        if let Self::Create { reply, .. } = self {
            reply.begin(batch);
        }
    }

    /// Writes it. A job that failed alone, and left nothing in the transaction, returns `None`.
    pub(super) fn write(
        self,
        connection: &Connection,
    ) -> std::result::Result<Option<Written>, FailedJob> {
        match self {
            Self::Create { creation, reply } => match create(connection, creation) {
                Ok(created) => Ok(Some(Written::Create { created, reply })),
                Err(error) => {
                    let reply = Some(reply);
                    Err(FailedJob { error, reply })
                }
            },
            Self::Other {
                write,
                checkpoint,
                reply,
            } => {
                // A savepoint: a job that fails rolls back its own writes only.
                connection.execute_batch("SAVEPOINT job")?;
                let written = write(connection);
                if let Err(error) = written {
                    let _ = reply.send(Err(store_error(&error)));
                    // SQLite may have rolled back everything by itself; then there is no savepoint left.
                    if is_fatal(&error) || connection.is_autocommit() {
                        return Err(error.into());
                    }
                    connection.execute_batch("ROLLBACK TO job; RELEASE job")?;
                    return Ok(None);
                }
                connection.execute_batch("RELEASE job")?;
                Ok(Some(Written::Other { checkpoint, reply }))
            }
        }
    }

    pub(super) fn fail(self, error: StoreError) {
        // A closed channel is not a failure: the client has disconnected.
        match self {
            Self::Create { reply, .. } => reply.send(Err(error)),
            Self::Other { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

impl Written {
    pub(super) fn created(&self) -> Option<&CreationOutcome> {
        match self {
            Self::Create { created, .. } => Some(created),
            Self::Other { .. } => None,
        }
    }

    pub(super) fn wants_checkpoint(&self) -> bool {
        matches!(self, Self::Other { checkpoint, .. } if *checkpoint)
    }

    /// Replies, once it is known whether the transaction was committed.
    pub(super) fn reply(self, committed: Result<()>) {
        match self {
            Self::Create { created, reply } => reply.send(committed.map(|()| created)),
            Self::Other { reply, .. } => drop(reply.send(committed)),
        }
    }
}
