//! The shared parts of the writers of both engines: a thread whose death is detected, a limit on waiting creations, and the outcome
//! of transactions.

mod health;
mod reply;

pub(crate) use reply::{Reply, reply_all};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use tokio::sync::watch;

use crate::counter::{Counter, Histogram};
use crate::store::contract::{CreationOutcome, Result, StoreError};
use health::WriteHealth;

/// State shared by the thread of a writer and its users.
pub(crate) struct WriterState {
    /// Creations that wait for a transaction. Writes of the server itself are few, and always accepted.
    waiting: AtomicUsize,
    max_waiting: usize,
    /// Whether writes wait longer for an import that is inserting its animals than for any other process.
    extends_import_wait: AtomicBool,
    /// Committed transactions: of all writes with SQLite, of creations with PostgreSQL.
    pub(crate) commits: Counter,
    /// Failed transactions of the same kind: nothing in them was acknowledged.
    pub(crate) failed: Counter,
    /// Animals per transaction that created any.
    pub(crate) rows: Histogram<8>,
    /// Creations rejected because too many were waiting.
    pub(crate) rejected: Counter,
    pub(crate) health: WriteHealth,
    /// Whether the writer has ended, and left what it stored in the write-ahead log because of an error. Only with SQLite.
    pub(crate) left_log: AtomicBool,
}

impl WriterState {
    /// The state of a writer for which at most `max_waiting` creations wait.
    pub(crate) fn new(max_waiting: usize) -> Arc<Self> {
        Arc::new(Self {
            waiting: AtomicUsize::new(0),
            max_waiting,
            extends_import_wait: AtomicBool::new(true),
            commits: Counter::default(),
            failed: Counter::default(),
            rows: Histogram::new([1, 4, 8, 16, 32, 64, 128, 256]),
            rejected: Counter::default(),
            health: WriteHealth::default(),
            left_log: AtomicBool::new(false),
        })
    }

    /// Admits a creation to the queue, or rejects it and counts the rejection.
    pub(crate) fn enter(&self) -> Result<()> {
        // Raised before it is compared, so that no two creations get the last place.
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting {
            self.leave(1);
            self.rejected.add(1);
            let full = "too many creations are waiting".into();
            return Err(StoreError::Unavailable(full));
        }
        Ok(())
    }

    pub(crate) fn leave(&self, creations: usize) {
        self.waiting.fetch_sub(creations, Ordering::Relaxed);
    }

    /// The number of creations that wait for a transaction.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// From now on, no write waits longer for an import that is inserting its animals than for any other process.
    pub(crate) fn stop_extending_import_wait(&self) {
        self.extends_import_wait.store(false, Ordering::Relaxed);
    }

    pub(crate) fn extends_import_wait(&self) -> bool {
        self.extends_import_wait.load(Ordering::Relaxed)
    }

    /// Records a committed transaction with these creations.
    pub(crate) fn committed<'a>(&self, created: impl Iterator<Item = &'a CreationOutcome>) {
        let (mut creations, mut new) = (0, 0);
        for created in created {
            creations += 1;
            new += usize::from(matches!(created, CreationOutcome::New(_)));
        }
        self.health.succeeded(creations > 0);
        self.commits.add(1);
        if new > 0 {
            self.rows.record(new as u64);
        }
    }
}

/// The state and the thread of a writer. Dropping it waits for the thread, so its queue, whose closing ends the thread, has to be
/// dropped before.
pub(crate) struct WriterMonitor {
    pub(crate) state: Arc<WriterState>,
    /// The receiver is closed when the thread has died. None if the database is open for reading only.
    thread: Option<(watch::Receiver<()>, JoinHandle<()>)>,
}

impl WriterMonitor {
    pub(crate) fn read_only(state: Arc<WriterState>) -> Self {
        let thread = None;
        Self { state, thread }
    }

    /// Starts the thread. It counts as alive until `work` drops its argument, which a panic does, too.
    pub(crate) fn start(
        state: Arc<WriterState>,
        name: &str,
        work: impl FnOnce(watch::Sender<()>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (alive, liveness) = watch::channel(());
        let thread = Builder::new().name(name.into()).spawn(|| work(alive))?;
        let thread = Some((liveness, thread));
        Ok(Self { state, thread })
    }

    pub(crate) fn alive(&self) -> Result<()> {
        match &self.thread {
            Some((liveness, _)) if liveness.has_changed().is_ok() => Ok(()),
            _ => Err(writer_stopped()),
        }
    }

    /// Returns when the writer has died: nothing can be acknowledged any more.
    pub(crate) async fn died(&self) {
        let Some((liveness, _)) = &self.thread else {
            return std::future::pending().await;
        };
        let mut liveness = liveness.clone();
        while liveness.changed().await.is_ok() {}
    }
}

impl Drop for WriterMonitor {
    fn drop(&mut self) {
        if let Some((_, thread)) = self.thread.take() {
            // Everything in the queue is written first.
            let _ = thread.join();
        }
    }
}

/// The error of everything that waits for a writer that has died.
pub(crate) fn writer_stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".into())
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;
    use std::sync::mpsc;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::pet::{NewPet, PetId};

    #[test]
    fn a_creation_beyond_the_limit_is_rejected_and_counted_and_takes_no_place() {
        let state = WriterState::new(2);
        for waiting in 1..=2 {
            state.enter().expect("a place");
            assert_eq!(state.waiting(), waiting);
        }
        for _ in 0..3 {
            let rejected = state.enter();
            assert!(matches!(rejected, Err(StoreError::Unavailable(_))));
        }
        assert_eq!(state.rejected.get(), 3);
        state.leave(2);
        for _ in 0..2 {
            state.enter().expect("a place");
        }
        assert!(state.enter().is_err());
    }

    #[test]
    fn transactions_are_counted_with_their_new_animals_and_only_a_creation_ends_a_failure_of_one() {
        let state = WriterState::new(1);
        let rex = NewPet::from_json(br#"{"name":"Rex","categoryId":1}"#).expect("an animal");
        let pet = |id| rex.clone().with_id(PetId(id));
        let figures = || {
            let transactions = state.rows.buckets().map(|(_, count)| count).sum::<u64>();
            let counts = (state.commits.get(), state.failed.get());
            (counts, (transactions, state.rows.sum()))
        };
        state.failed.add(1);
        state
            .health
            .failed(&"database or disk is full", "disk full", true);
        assert_eq!(figures(), ((0, 1), (0, 0)));
        state.committed([].iter());
        assert_eq!(figures(), ((1, 1), (0, 0)));
        assert_eq!(state.health.failure(), Some("disk full"));
        state.committed([CreationOutcome::Replayed(pet(1)), CreationOutcome::Mismatch].iter());
        assert_eq!(figures(), ((2, 1), (0, 0)));
        assert_eq!(state.health.failure(), None);
        state.committed(
            [
                CreationOutcome::New(pet(2)),
                CreationOutcome::Replayed(pet(1)),
                CreationOutcome::New(pet(3)),
            ]
            .iter(),
        );
        assert_eq!(figures(), ((3, 1), (1, 2)));
    }

    #[test]
    fn a_writer_without_a_thread_is_not_alive_and_does_not_die() {
        let monitor = WriterMonitor::read_only(WriterState::new(1));
        assert!(monitor.alive().is_err());
        assert_eq!(monitor.died().now_or_never(), None);
    }

    #[test]
    fn its_death_is_detected_whether_it_ended_or_panicked() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.build().expect("a runtime");
        for panics in [false, true] {
            let (queue, jobs) = mpsc::channel::<()>();
            let monitor = WriterMonitor::start(WriterState::new(1), "test", move |_alive| {
                while jobs.recv().is_ok() {}
                if panics {
                    resume_unwind(Box::new("without a message"));
                }
            });
            let monitor = monitor.expect("a thread");
            assert!(monitor.alive().is_ok());
            assert_eq!(monitor.died().now_or_never(), None);
            drop(queue);
            for _ in 0..2 {
                runtime.block_on(monitor.died());
            }
            assert!(matches!(monitor.alive(), Err(StoreError::Unavailable(_))));
        }
    }

    #[test]
    fn dropping_it_waits_until_all_work_is_done() {
        let (queue, jobs) = mpsc::channel::<()>();
        let done: Arc<AtomicBool> = Arc::default();
        let monitor = WriterMonitor::start(WriterState::new(1), "test", {
            let done = Arc::clone(&done);
            move |_alive| {
                while jobs.recv().is_ok() {}
                std::thread::sleep(Duration::from_millis(20));
                done.store(true, Ordering::Relaxed);
            }
        });
        drop(queue);
        drop(monitor.expect("a thread"));
        assert!(done.load(Ordering::Relaxed));
    }
}
