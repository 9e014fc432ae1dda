//! The thread that writes. All waiting writes are committed in one transaction, and acknowledged when the commit has returned. If
//! the commit fails, all of them fail; after a failure of the disk, or when the file is no longer at its path, nothing is
//! acknowledged again.

mod checkpoint;
mod disk_full;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::connect::count_log_pages;
use super::error::{commit_error, is_busy, is_fatal, public_reason, store_error};
use super::identity::{Moved, OpenFiles, check_in_place};
use super::import_wait::ImportWait;
use super::job::Job;
use super::lock::is_importing;
use crate::fault::Fault;
use crate::store::contract::{Creation, CreationOutcome, Result, StoreError};
use crate::store::writer::{Reply, WriterMonitor, WriterState, writer_stopped};
use crate::trace::DatabaseSystem;
use disk_full::or_disk_full;

/// The maximum number of writes in one transaction: enough that the sync is a small part, few enough that the first waits briefly.
const MAX_BATCH: usize = 512;

/// The interval at which all files are checked. After a commit, before it is acknowledged, only those with its data are.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(400);

/// From how many pages on the write-ahead log is checkpointed after a commit. SQLite would do that by itself, during the commit, but
/// does not report errors.
const CHECKPOINT_PAGES: i32 = 1_000;

pub(super) struct SqliteWriter {
    // Dropped before the monitor, which waits for the thread to write the rest of the queue. None if the file is open for
    // reading only.
    queue: Option<Sender<Job>>,
    pub(super) monitor: WriterMonitor,
}

impl SqliteWriter {
    /// Starts the thread, unless there is no connection that writes. It stops when one of these files is moved or removed.
    pub(super) fn start(
        path: &Path,
        connection: Option<Connection>,
        files: OpenFiles,
        max_waiting: usize,
    ) -> std::io::Result<Self> {
        let state = WriterState::new(max_waiting);
        let (queue, monitor) = match connection {
            Some(mut connection) => {
                let (queue, jobs) = mpsc::channel();
                let log_pages = count_log_pages(&mut connection).map_err(std::io::Error::other)?;
                let write_loop = WriteLoop {
                    path: path.into(),
                    connection,
                    log_pages,
                    files,
                    state: Arc::clone(&state),
                    import_wait: ImportWait::default(),
                    is_log_left: Cell::new(false),
                };
                let run = move |_alive| write_loop.run(&jobs);
                (Some(queue), WriterMonitor::start(state, "writer", run)?)
            }
            None => (None, WriterMonitor::read_only(state)),
        };
        Ok(Self { queue, monitor })
    }

    pub(super) async fn create(&self, creation: Creation) -> Result<CreationOutcome> {
        self.monitor.state.enter()?;
        let (reply, created) = Reply::channel(DatabaseSystem::Sqlite);
        self.send(Job::Create {
            creation: Some(creation),
            created: None,
            reply,
        })?;
        created.await.unwrap_or_else(|_| Err(writer_stopped()))
    }

    /// Runs `write` in the next transaction, and returns when that is committed. With `checkpoint`, for writes that change many
    /// pages, the write-ahead log is checkpointed right after the commit: otherwise that happens after a thousand pages, which
    /// delays everything for ten times as long.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        checkpoint: bool,
    ) -> Result<T> {
        let (value, mut written) = oneshot::channel();
        let (reply, committed) = oneshot::channel();
        self.send(Job::Other {
            write: Some(Box::new(|connection| {
                write(connection).map(|written| drop(value.send(written)))
            })),
            checkpoint,
            reply: Some(reply),
        })?;
        committed.await.unwrap_or_else(|_| Err(writer_stopped()))?;
        written.try_recv().map_err(|_| writer_stopped())
    }

    fn send(&self, job: Job) -> Result<()> {
        let read_only = || StoreError::Failed("the database is open for reading only".into());
        let queue = self.queue.as_ref().ok_or_else(read_only)?;
        queue.send(job).map_err(|_| writer_stopped())
    }
}

/// Why nothing may be acknowledged again.
#[derive(Debug, thiserror::Error)]
enum FatalError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Moved(#[from] Moved),
}

/// The work of the thread.
struct WriteLoop {
    path: PathBuf,
    connection: Connection,
    /// The size of the write-ahead log at the last commit.
    log_pages: Arc<AtomicI32>,
    files: OpenFiles,
    state: Arc<WriterState>,
    import_wait: ImportWait,
    /// Whether the last checkpoint has left a part of the write-ahead log: a reader needed it, or it failed.
    is_log_left: Cell<bool>,
}

impl WriteLoop {
    fn run(self, jobs: &Receiver<Job>) {
        if let Err(error) = self.write_all(jobs) {
            tracing::error!(%error, "cannot write to the database any more; shutting down");
            return;
        }
        // SQLite does that when the last connection is closed, but another process may still have one.
        if let Err(error) = self.try_checkpoint() {
            tracing::error!(%error, "cannot move the write-ahead log into the database file: keep the file ending in -wal, which the next start reads");
            self.state.left_log.store(true, Ordering::Relaxed);
        }
    }

    /// Writes until the queue is closed.
    fn write_all(&self, jobs: &Receiver<Job>) -> std::result::Result<(), FatalError> {
        let mut checked = Instant::now();
        loop {
            let received = jobs.recv_timeout(FILE_CHECK_INTERVAL);
            if checked.elapsed() >= FILE_CHECK_INTERVAL {
                check_in_place(self.files.data.iter().chain(&self.files.locks))?;
                checked = Instant::now();
            }
            match received {
                Ok(first) => {
                    // Lets a worker on the same core queue what it has read, so that more writes share one sync. A single write
                    // does not wait.
                    if self.state.waiting() > 1 {
                        std::thread::yield_now();
                    }
                    let others = jobs.try_iter().take(MAX_BATCH - 1);
                    let batch = self.dequeue(std::iter::once(first).chain(others));
                    self.write(batch, jobs)?;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.import_wait.end_unless(|| is_importing(&self.path))
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn dequeue(&self, jobs: impl Iterator<Item = Job>) -> Vec<Job> {
        let jobs: Vec<Job> = jobs.collect();
        self.state
            .leave(jobs.iter().filter(|job| job.is_creation()).count());
        jobs
    }

    /// Writes all of a batch, and replies. An error is one after which nothing may be acknowledged again.
    fn write(
        &self,
        mut batch: Vec<Job>,
        jobs: &Receiver<Job>,
    ) -> std::result::Result<(), FatalError> {
        if self.is_log_left.get() {
            batch = self.with_room(batch)?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        let connection = &self.connection;
        let of_creations = batch.iter().any(Job::is_creation);
        let writes = batch.len();
        batch.iter_mut().for_each(|job| job.begin(writes));
        let mut is_committing = false;
        let mut _in_progress = None;
        let committed = self.begin().and_then(|()| {
            _in_progress = Some(self.state.health.begin_write());
            batch.iter_mut().try_for_each(|job| job.write(connection))?;
            if Fault::AckBeforeCommit.is_enabled() {
                Job::reply_all(batch.drain(..), &Ok(()));
                std::thread::sleep(Duration::from_millis(5));
            }
            is_committing = true;
            connection.execute_batch("COMMIT")
        });
        match committed {
            Ok(()) => {
                if let Err(moved) = check_in_place(&self.files.data) {
                    let failure = StoreError::Unconfirmed(moved.to_string());
                    Job::reply_all(batch, &Err(failure));
                    return Err(moved.into());
                }
                self.state.committed(batch.iter().filter_map(Job::created));
                let checkpoint = batch.iter().any(Job::wants_checkpoint);
                Job::reply_all(batch, &Ok(()));
                if checkpoint || self.log_pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES {
                    self.checkpoint()?;
                }
                Ok(())
            }
            Err(error) => {
                let error = or_disk_full(error, self.files.data.last(), &self.path);
                let rolled_back =
                    connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
                let failure = match is_committing {
                    true => commit_error(&error),
                    false => store_error(&error),
                };
                self.record_failure(&error, of_creations);
                // The writes still in the queue have waited for the same lock, so they fail, too: batch by batch, each would wait
                // again, the last ones for very long. They are taken before the first reply, so that retries sent after it are not
                // among them.
                let waiting = match is_busy(&error) {
                    true => self.dequeue(jobs.try_iter()),
                    false => Vec::new(),
                };
                Job::reply_all(batch.into_iter().chain(waiting), &Err(failure));
                // The log itself may have filled the disk, while a reader kept it from being restarted.
                if rolled_back && error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
                    self.checkpoint()?;
                }
                // If the transaction cannot be rolled back, all later writes would become part of it.
                match is_fatal(&error) || !rolled_back {
                    true => Err(error.into()),
                    false => Ok(()),
                }
            }
        }
    }

    /// Records that a transaction, with creations or without, has failed.
    fn record_failure(&self, error: &rusqlite::Error, of_creations: bool) {
        self.state.failed.add(1);
        // When a lock is released, all writes succeed again, so any write shows that this failure is over.
        let needs_creation = of_creations && !is_busy(error);
        let reason = public_reason(error);
        self.state.health.failed(error, reason, needs_creation);
    }

    /// Begins a transaction. All writes wait for an import that is inserting its animals.
    fn begin(&self) -> rusqlite::Result<()> {
        loop {
            let begun = self.connection.execute_batch("BEGIN IMMEDIATE");
            let is_locked_by_import = begun.as_ref().is_err_and(is_busy)
                && self.state.extends_import_wait()
                && is_importing(&self.path);
            if !is_locked_by_import {
                self.import_wait.end();
                return begun;
            }
            if !self.import_wait.may_continue(Instant::now()) {
                return begun;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::super::Sqlite;
    use super::super::lock::FileLock;
    use super::super::open::WRITE_LOCK_TIMEOUT;
    use super::*;
    use crate::pet::NewPet;
    use crate::store::contract::Mode;

    #[tokio::test]
    async fn creations_that_wait_for_the_lock_of_another_process_fail_together_however_many_they_are()
     {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let (engine, _) = Sqlite::open(&path, Mode::Migrate, usize::MAX, None).unwrap();
        let create = || engine.create(rex());
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let began = Instant::now();
        let created = join_all((0..4 * MAX_BATCH).map(|_| create())).await;
        let took = began.elapsed();
        let is_unavailable = |created: &_| matches!(created, Err(StoreError::Unavailable(_)));
        assert!(created.iter().all(is_unavailable), "{created:?}");
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert_eq!(engine.writer().state.waiting(), 0);

        other.execute_batch("COMMIT").unwrap();
        assert!(create().await.is_ok());
    }

    fn rex() -> Creation {
        Creation {
            pet: NewPet::from_json(br#"{"name":"Rex","categoryId":1}"#).unwrap(),
            idempotency: None,
        }
    }

    #[tokio::test]
    async fn nothing_is_acknowledged_after_the_file_was_moved_and_an_idle_writer_stops_too() {
        for (idle, replaced_by_link) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            let (engine, _) = Sqlite::open(&path, Mode::Migrate, 1, None).unwrap();
            let moved = folder.path().join("b.db");
            std::fs::rename(&path, &moved).unwrap();
            if replaced_by_link {
                std::os::unix::fs::symlink(&moved, &path).unwrap();
            }
            if !idle {
                let created = engine.create(rex()).await;
                assert!(
                    matches!(created, Err(StoreError::Unconfirmed(_))),
                    "{created:?}"
                );
            }
            let died = engine.writer().died();
            let died = tokio::time::timeout(5 * FILE_CHECK_INTERVAL, died);
            assert!(died.await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_large_write_is_checkpointed_at_once_and_a_small_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let (engine, _) = Sqlite::open(&path, Mode::Migrate, 1, None).unwrap();
        let grown = async |table: &'static str, checkpoint| {
            let before = std::fs::metadata(&path).unwrap().len();
            let create = move |connection: &Connection| {
                let blob = "AS SELECT zeroblob(100000) AS blob";
                connection.execute_batch(&format!("CREATE TABLE {table} {blob}"))
            };
            engine.writer.run(create, checkpoint).await.unwrap();
            // The next one waits for the checkpoint.
            engine.writer.run(|_| Ok(()), false).await.unwrap();
            std::fs::metadata(&path).unwrap().len() - before
        };
        assert_eq!(grown("small", false).await, 0);
        assert!(grown("large", true).await > 200_000);
    }

    #[tokio::test]
    async fn a_creation_waits_for_an_import_longer_than_for_any_other_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let (engine, _) = Sqlite::open(&path, Mode::Migrate, 1, None).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let import = FileLock::take_import(&path).unwrap();
        let release = std::thread::spawn(move || {
            std::thread::sleep(WRITE_LOCK_TIMEOUT + WRITE_LOCK_TIMEOUT / 4);
            other.execute_batch("COMMIT").unwrap();
            drop(import);
        });
        let created = engine.create(rex()).await;
        assert!(created.is_ok(), "{created:?}");
        release.join().unwrap();
    }
}
