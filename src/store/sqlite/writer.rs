//! The one thread that writes. What waits is committed together, in one transaction, and answered when the commit has
//! returned. A commit that fails, fails all who wait on it; after a failure of the disk nothing is acknowledged again.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::{pets, trouble};
use crate::fault::Fault;
use crate::pet::NewPet;
use crate::store::thread::{WriterThread, dead};
use crate::store::waiting::Waiting;
use crate::store::{Commits, Created, Result, Retry, StoreError};

/// The most writes in one transaction: enough that the sync is a small part, few enough that the first waits briefly.
const BATCH: usize = 512;

#[derive(Debug)]
pub(super) struct Writer {
    // The queue closes before the thread is waited for, which writes what is in it; then SQLite folds its log into the file.
    queue: Sender<Job>,
    thread: WriterThread,
    waiting: Arc<Waiting>,
    commits: Arc<Commits>,
}

/// One thing to write, and who waits for it.
enum Job {
    Create {
        pet: NewPet,
        retry: Option<Retry>,
        reply: oneshot::Sender<Result<Created>>,
    },
    /// Anything else. Told at last whether the transaction was committed.
    Other(Box<dyn OtherJob>),
}

trait OtherJob: Send {
    fn write(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    fn answer(self: Box<Self>, committed: Result<()>);
}

impl Writer {
    pub(super) fn start(connection: Connection, max_waiting: usize) -> std::io::Result<Self> {
        let commits: Arc<Commits> = Arc::default();
        let (queue, jobs) = mpsc::channel();
        let waiting = Arc::new(Waiting::at_most(max_waiting));
        let (counts, taken) = (Arc::clone(&commits), Arc::clone(&waiting));
        let thread = WriterThread::start("writer", move |_alive| {
            write_all(connection, &jobs, &taken, &counts);
        })?;
        Ok(Self {
            queue,
            thread,
            waiting,
            commits,
        })
    }

    pub(super) async fn create(&self, pet: NewPet, retry: Option<Retry>) -> Result<Created> {
        self.waiting.enter(&self.commits)?;
        let (reply, answer) = oneshot::channel();
        self.send(Job::Create { pet, retry, reply })?;
        answer.await.unwrap_or_else(|_| Err(dead()))
    }

    /// Runs `write` in the next transaction, and returns when that is committed.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Other(Box::new(Task {
            write: Some(write),
            result: None,
            reply,
        })))?;
        answer.await.unwrap_or_else(|_| Err(dead()))
    }

    pub(super) fn alive(&self) -> Result<()> {
        self.thread.alive()
    }

    pub(super) async fn died(&self) {
        self.thread.died().await;
    }

    pub(super) fn commits(&self) -> &Arc<Commits> {
        &self.commits
    }

    fn send(&self, job: Job) -> Result<()> {
        self.queue.send(job).map_err(|_| dead())
    }
}

fn write_all(connection: Connection, jobs: &Receiver<Job>, waiting: &Waiting, commits: &Commits) {
    while let Ok(first) = jobs.recv() {
        let batch: Vec<Job> = std::iter::once(first)
            .chain(jobs.try_iter().take(BATCH - 1))
            .collect();
        let creations = batch
            .iter()
            .filter(|job| matches!(job, Job::Create { .. }))
            .count();
        waiting.leave(creations);
        if let Err(error) = write_batch(&connection, batch, commits) {
            tracing::error!(%error, "the database cannot be written any more; stopping");
            return;
        }
    }
}

/// Writes and answers all of a batch. An error is one after which nothing may be acknowledged again.
fn write_batch(
    connection: &Connection,
    batch: Vec<Job>,
    commits: &Commits,
) -> rusqlite::Result<()> {
    let mut done = Vec::with_capacity(batch.len());
    let mut rest = batch.into_iter();
    let committed = connection.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
        for job in &mut rest {
            done.push(job.write(connection)?);
        }
        if Fault::AckBeforeCommit.is_on() {
            done.drain(..).for_each(|written| written.answer(Ok(())));
            std::thread::sleep(Duration::from_millis(5));
        }
        connection.execute_batch("COMMIT")
    });
    match committed {
        Ok(()) => {
            let rows = done.iter().filter(|written| written.is_new_pet()).count();
            commits.committed(rows);
            done.into_iter().for_each(|written| written.answer(Ok(())));
            Ok(())
        }
        Err(error) => {
            let rolled_back =
                connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
            let told = trouble(&error);
            tracing::error!(%error, "a transaction failed");
            done.into_iter()
                .for_each(|written| written.answer(Err(told.clone())));
            rest.for_each(|job| job.refuse(told.clone()));
            // A transaction that cannot be ended would swallow all that come after it.
            if is_fatal(&error) || !rolled_back {
                Err(error)
            } else {
                Ok(())
            }
        }
    }
}

/// After these the file or the disk cannot be trusted: a second sync may claim what the first one lost.
fn is_fatal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
        )
    )
}

/// A job that is part of the open transaction.
enum Written {
    Create {
        created: Created,
        reply: oneshot::Sender<Result<Created>>,
    },
    Other(Box<dyn OtherJob>),
}

impl Job {
    fn write(self, connection: &Connection) -> rusqlite::Result<Written> {
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

    fn refuse(self, error: StoreError) {
        match self {
            // Nobody waiting any more is no failure: the caller has gone away.
            Self::Create { reply, .. } => drop(reply.send(Err(error))),
            Self::Other(job) => job.answer(Err(error)),
        }
    }
}

impl Written {
    fn is_new_pet(&self) -> bool {
        matches!(
            self,
            Self::Create {
                created: Created::New(_),
                ..
            }
        )
    }

    fn answer(self, committed: Result<()>) {
        match self {
            Self::Create { created, reply } => drop(reply.send(committed.map(|()| created))),
            Self::Other(job) => job.answer(committed),
        }
    }
}

struct Task<W, T> {
    write: Option<W>,
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
