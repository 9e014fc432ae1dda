//! The jobs of the writer, and the channels for their results.

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::creation::create;
use super::error::{is_fatal, store_error};
use crate::store::contract::{Creation, CreationOutcome, Result};
use crate::store::writer::{Reply, reply_all, writer_stopped};

type WriteFn = dyn FnOnce(&Connection) -> rusqlite::Result<()> + Send;

/// A write, until it is carried out, and the channel for its result.
pub(super) enum Job {
    Create {
        creation: Option<Creation>,
        created: Option<CreationOutcome>,
        reply: Reply,
    },
    Other {
        write: Option<Box<WriteFn>>,
        /// Whether the write-ahead log is checkpointed after the commit.
        checkpoint: bool,
        /// None once it has failed alone, and left nothing in the transaction.
        reply: Option<oneshot::Sender<Result<()>>>,
    },
}

impl Job {
    /// Begins the span of the request that waits, if one does, when the transaction of this many writes begins.
    pub(super) fn begin(&mut self, batch: usize) {
        if let Self::Create { reply, .. } = self {
            reply.begin(batch);
        }
    }

    /// Writes it. An error fails the whole transaction.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        match self {
            Self::Create {
                creation, created, ..
            } => {
                let creating = creation.take().map(|creation| create(connection, creation));
                *created = creating.transpose()?;
                Ok(())
            }
            Self::Other { write, reply, .. } => {
                let Some(write) = write.take() else {
                    return Ok(());
                };
                // A savepoint: a job that fails rolls back its own writes only.
                connection.execute_batch("SAVEPOINT job")?;
                let Err(error) = write(connection) else {
                    return connection.execute_batch("RELEASE job");
                };
                if let Some(reply) = reply.take() {
                    let _ = reply.send(Err(store_error(&error)));
                }
                // SQLite may have rolled back everything by itself; then there is no savepoint left.
                match is_fatal(&error) || connection.is_autocommit() {
                    true => Err(error),
                    false => connection.execute_batch("ROLLBACK TO job; RELEASE job"),
                }
            }
        }
    }

    pub(super) fn is_creation(&self) -> bool {
        matches!(self, Self::Create { .. })
    }

    pub(super) fn created(&self) -> Option<&CreationOutcome> {
        match self {
            Self::Create { created, .. } => created.as_ref(),
            Self::Other { .. } => None,
        }
    }

    pub(super) fn wants_checkpoint(&self) -> bool {
        matches!(
            self,
            Self::Other {
                checkpoint: true,
                reply: Some(_),
                ..
            }
        )
    }

    /// Replies to all of these, once it is known whether their transaction was committed.
    pub(super) fn reply_all(jobs: impl IntoIterator<Item = Self>, committed: &Result<()>) {
        reply_all(jobs.into_iter().filter_map(|job| {
            let committed = committed.clone();
            match job {
                Self::Create { created, reply, .. } => {
                    let created = committed.and_then(|()| created.ok_or_else(writer_stopped));
                    Some((reply, created))
                }
                Self::Other { reply, .. } => {
                    let _ = reply?.send(committed);
                    None
                }
            }
        }));
    }
}
