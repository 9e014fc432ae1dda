//! What the writer is asked to write, and who waits for it.

use std::fmt;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::writer::is_fatal;
use super::{pets, trouble};
use crate::pet::NewPet;
use crate::store::thread::dead;
use crate::store::{Created, Result, Retry, StoreError};

/// One thing to write, and who waits for it.
pub(super) enum Job {
    Create {
        pet: NewPet,
        retry: Option<Retry>,
        reply: oneshot::Sender<Result<Created>>,
    },
    /// Anything else. Told at last whether the transaction was committed.
    Other(Box<dyn OtherJob>),
}

pub(super) trait OtherJob: Send {
    fn write(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    /// Whether the log is to be folded into the file after the commit.
    fn wants_checkpoint(&self) -> bool;
    fn answer(self: Box<Self>, committed: Result<()>);
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
    /// A job that runs `write`, and sends what came of it. With `checkpoint`, the log is folded into the file after the commit.
    pub(super) fn other<T: Send + 'static>(
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        checkpoint: bool,
        reply: oneshot::Sender<Result<T>>,
    ) -> Self {
        Self::Other(Box::new(Task {
            write: Some(write),
            checkpoint,
            result: None,
            reply,
        }))
    }

    pub(super) fn write(self, connection: &Connection) -> rusqlite::Result<Written> {
        match self {
            Self::Create { pet, retry, reply } => {
                match pets::create(connection, pet, retry.as_ref()) {
                    Ok(created) => Ok(Written::Create { created, reply }),
                    Err(error) => {
                        let _ = reply.send(Err(trouble(&error)));
                        Err(error)
                    }
                }
            }
            Self::Other(mut job) => {
                // A savepoint: one that fails takes back its own writes and no one else's.
                connection.execute_batch("SAVEPOINT job")?;
                match job.write(connection) {
                    Ok(()) => {}
                    // SQLite may have taken back everything by itself; then there is no savepoint left.
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

    pub(super) fn refuse(self, error: StoreError) {
        match self {
            // Nobody waiting any more is no failure: the caller has gone away.
            Self::Create { reply, .. } => drop(reply.send(Err(error))),
            Self::Other(job) => job.answer(Err(error)),
        }
    }
}

impl Written {
    pub(super) fn is_new_pet(&self) -> bool {
        matches!(
            self,
            Self::Create {
                created: Created::New(_),
                ..
            }
        )
    }

    pub(super) fn wants_checkpoint(&self) -> bool {
        matches!(self, Self::Other(job) if job.wants_checkpoint())
    }

    pub(super) fn answer(self, committed: Result<()>) {
        match self {
            Self::Create { created, reply } => drop(reply.send(committed.map(|()| created))),
            Self::Other(job) => job.answer(committed),
        }
    }
}

struct Task<W, T> {
    write: Option<W>,
    checkpoint: bool,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<W, T> OtherJob for Task<W, T>
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
                self.result = Some(Err(trouble(&error)));
                Err(error)
            }
        }
    }

    fn wants_checkpoint(&self) -> bool {
        self.checkpoint
    }

    fn answer(self: Box<Self>, committed: Result<()>) {
        let result = self.result.unwrap_or_else(|| Err(dead()));
        let _ = self.reply.send(committed.and(result));
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}
