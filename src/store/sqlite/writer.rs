//! The one thread that writes. What waits is committed together, in one transaction, and answered when the commit has
//! returned. A commit that fails, fails all who wait on it; after a failure of the disk nothing is acknowledged again.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::job::{Job, Written};
use super::trouble;
use crate::fault::Fault;
use crate::pet::NewPet;
use crate::store::thread::{WriterThread, dead};
use crate::store::waiting::Waiting;
use crate::store::write_health::WriteHealth;
use crate::store::{Commits, Created, Result, Retry};

/// The most writes in one transaction: enough that the sync is a small part, few enough that the first waits briefly.
const BATCH: usize = 512;

#[derive(Debug)]
pub(super) struct Writer {
    // The queue closes before the thread is waited for, which writes what is in it; then SQLite folds its log into the file.
    queue: Sender<Job>,
    thread: WriterThread,
    waiting: Arc<Waiting>,
    commits: Arc<Commits>,
    health: Arc<WriteHealth>,
}

impl Writer {
    pub(super) fn start(connection: Connection, max_waiting: usize) -> std::io::Result<Self> {
        let commits: Arc<Commits> = Arc::default();
        let (queue, jobs) = mpsc::channel();
        let waiting = Arc::new(Waiting::at_most(max_waiting));
        let health: Arc<WriteHealth> = Arc::default();
        let work = Work {
            connection,
            waiting: Arc::clone(&waiting),
            commits: Arc::clone(&commits),
            health: Arc::clone(&health),
        };
        let thread = WriterThread::start("writer", move |_alive| work.run(&jobs))?;
        Ok(Self {
            queue,
            thread,
            waiting,
            commits,
            health,
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
        self.run_job(write, false).await
    }

    /// The same for what changes many pages. They are moved from the log to the file right after the commit: left to SQLite, that
    /// happens when they are a thousand, and holds up everyone for ten times as long.
    pub(super) async fn run_and_checkpoint<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_job(write, true).await
    }

    async fn run_job<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        checkpoint: bool,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::other(write, checkpoint, reply))?;
        answer.await.unwrap_or_else(|_| Err(dead()))
    }

    pub(super) fn alive(&self) -> Result<()> {
        self.thread.alive()
    }

    pub(super) async fn died(&self) {
        self.thread.died().await;
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.count()
    }

    pub(super) fn commits(&self) -> &Arc<Commits> {
        &self.commits
    }

    pub(super) fn health(&self) -> &WriteHealth {
        &self.health
    }

    fn send(&self, job: Job) -> Result<()> {
        self.queue.send(job).map_err(|_| dead())
    }
}

/// What the thread works with.
struct Work {
    connection: Connection,
    waiting: Arc<Waiting>,
    commits: Arc<Commits>,
    health: Arc<WriteHealth>,
}

impl Work {
    fn run(self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let batch: Vec<Job> = std::iter::once(first)
                .chain(jobs.try_iter().take(BATCH - 1))
                .collect();
            let creations = batch
                .iter()
                .filter(|job| matches!(job, Job::Create { .. }))
                .count();
            self.waiting.leave(creations);
            if let Err(error) = self.write(batch) {
                tracing::error!(%error, "the database cannot be written any more; stopping");
                return;
            }
        }
    }

    /// Writes and answers all of a batch. An error is one after which nothing may be acknowledged again.
    fn write(&self, batch: Vec<Job>) -> rusqlite::Result<()> {
        let connection = &self.connection;
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
                self.health.succeeded();
                let rows = done.iter().filter(|written| written.is_new_pet()).count();
                self.commits.committed(rows);
                let checkpoint = done.iter().any(Written::wants_checkpoint);
                done.into_iter().for_each(|written| written.answer(Ok(())));
                if checkpoint {
                    self.checkpoint()?;
                }
                Ok(())
            }
            Err(error) => {
                let rolled_back =
                    connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
                let told = trouble(&error);
                self.health.failed(&error, kind(&error));
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

    /// Moves what nobody reads from the log any more into the file. What does not work now is done by the next one.
    fn checkpoint(&self) -> rusqlite::Result<()> {
        match self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()))
        {
            Err(error) if is_fatal(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// What an error is, for readiness.
fn kind(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "disk full",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "locked by another process",
        _ => "failing",
    }
}

/// After these the file or the disk cannot be trusted: a second sync may claim what the first one lost.
pub(super) fn is_fatal(error: &rusqlite::Error) -> bool {
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
