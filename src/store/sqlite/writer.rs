//! The thread that writes. All waiting writes are committed in one transaction, and acknowledged when the commit has returned. A
//! commit that fails, fails all of them; after a failure of the disk nothing is acknowledged again.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::{is_fatal, kind, store_error};
use super::job::{Job, Written};
use crate::fault::Fault;
use crate::store::contract::{Created, Creation, Result, StoreError};
use crate::store::writer::{WriterMonitor, WriterState, WriterThread, dead};

/// The maximum number of writes in one transaction: enough that the sync is a small part, few enough that the first waits briefly.
const BATCH: usize = 512;

#[derive(Debug)]
pub(super) struct SqliteWriter {
    // Dropped before the monitor, which waits for the thread to write the rest of the queue. None if the file is open for
    // reading only.
    queue: Option<Sender<Job>>,
    pub(super) monitor: WriterMonitor,
}

impl SqliteWriter {
    /// Starts the thread, unless there is no connection that writes.
    pub(super) fn start(
        connection: Option<Connection>,
        max_waiting: usize,
    ) -> std::io::Result<Self> {
        let state = WriterState::new(max_waiting);
        let (queue, thread) = match connection {
            Some(connection) => {
                let (queue, jobs) = mpsc::channel();
                let write_loop = WriteLoop {
                    connection,
                    state: Arc::clone(&state),
                };
                let run = move |_alive| write_loop.run(&jobs);
                (Some(queue), Some(WriterThread::start("writer", run)?))
            }
            None => (None, None),
        };
        let monitor = WriterMonitor { state, thread };
        Ok(Self { queue, monitor })
    }

    pub(super) async fn create(&self, creation: Creation) -> Result<Created> {
        self.monitor.state.enter()?;
        let (reply, created) = oneshot::channel();
        self.send(Job::Create { creation, reply })?;
        created.await.unwrap_or_else(|_| Err(dead()))
    }

    /// Runs `write` in the next transaction, and returns when that is committed. With `checkpoint`, for writes that change many
    /// pages, the write-ahead log is checkpointed right after the commit: SQLite would do that after a thousand pages, which delays
    /// everything for ten times as long.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        checkpoint: bool,
    ) -> Result<T> {
        let (value, mut written) = oneshot::channel();
        let (reply, committed) = oneshot::channel();
        self.send(Job::Other {
            write: Box::new(|connection| {
                write(connection).map(|written| drop(value.send(written)))
            }),
            checkpoint,
            reply,
        })?;
        committed.await.unwrap_or_else(|_| Err(dead()))?;
        written.try_recv().map_err(|_| dead())
    }

    fn send(&self, job: Job) -> Result<()> {
        let read_only = || StoreError::Failed("the database is open for reading only".into());
        let queue = self.queue.as_ref().ok_or_else(read_only)?;
        queue.send(job).map_err(|_| dead())
    }
}

/// The work of the thread.
struct WriteLoop {
    connection: Connection,
    state: Arc<WriterState>,
}

impl WriteLoop {
    fn run(self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let batch: Vec<Job> = std::iter::once(first)
                .chain(jobs.try_iter().take(BATCH - 1))
                .collect();
            let creations = batch
                .iter()
                .filter(|job| matches!(job, Job::Create { .. }))
                .count();
            self.state.leave(creations);
            if let Err(error) = self.write(batch) {
                tracing::error!(%error, "the database cannot be written any more; stopping");
                return;
            }
        }
    }

    /// Writes all of a batch, and replies. An error is one after which nothing may be acknowledged again.
    fn write(&self, batch: Vec<Job>) -> rusqlite::Result<()> {
        let connection = &self.connection;
        let mut done = Vec::with_capacity(batch.len());
        let mut rest = batch.into_iter();
        let committed = connection.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
            for job in &mut rest {
                done.extend(job.write(connection)?);
            }
            if Fault::AckBeforeCommit.is_on() {
                done.drain(..).for_each(|written| written.reply(Ok(())));
                std::thread::sleep(Duration::from_millis(5));
            }
            connection.execute_batch("COMMIT")
        });
        match committed {
            Ok(()) => {
                self.state
                    .committed(done.iter().filter_map(Written::created));
                let checkpoint = done.iter().any(Written::wants_checkpoint);
                done.into_iter().for_each(|written| written.reply(Ok(())));
                if checkpoint {
                    self.checkpoint()?;
                }
                Ok(())
            }
            Err(error) => {
                let rolled_back =
                    connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
                let failure = store_error(&error);
                self.state.health.failed(&error, kind(&error));
                done.into_iter()
                    .for_each(|written| written.reply(Err(failure.clone())));
                rest.for_each(|job| job.fail(failure.clone()));
                // If the transaction cannot be rolled back, all later writes would become part of it.
                match is_fatal(&error) || !rolled_back {
                    true => Err(error),
                    false => Ok(()),
                }
            }
        }
    }

    /// Checkpoints the write-ahead log. After a temporary failure the next checkpoint includes the rest.
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
