//! The shared parts of the writers of both engines: a thread whose death is detected, a limit of waiting creations, and the outcome
//! of transactions.

mod health;
mod reply;
mod thread;

pub(crate) use reply::Reply;
pub(crate) use thread::{WriterThread, writer_stopped};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::counter::{Counter, Histogram};
use crate::store::contract::{CreationOutcome, Result, StoreError};
use health::WriteHealth;

/// Counts of transactions and creations.
pub(crate) struct Commits {
    /// Transactions that wrote something.
    pub(crate) done: Counter,
    /// Transactions that failed: nothing in them was acknowledged.
    pub(crate) failed: Counter,
    /// Animals per transaction that created any.
    pub(crate) rows: Histogram<8>,
    /// Creations rejected because too many were waiting.
    pub(crate) rejected: Counter,
}

impl Default for Commits {
    fn default() -> Self {
        Self {
            done: Counter::default(),
            failed: Counter::default(),
            rows: Histogram::new([1, 4, 8, 16, 32, 64, 128, 256]),
            rejected: Counter::default(),
        }
    }
}

/// State shared by the thread of a writer and its users.
pub(crate) struct WriterState {
    /// Creations that wait for a transaction. Writes of the server itself are few, and always accepted.
    waiting: AtomicUsize,
    max_waiting: usize,
    /// Whether writes no longer wait for an import that is being published.
    gives_up_on_imports: AtomicBool,
    pub(crate) commits: Commits,
    pub(crate) health: WriteHealth,
}

impl WriterState {
    /// The state of a writer for which at most `max_waiting` creations wait.
    pub(crate) fn new(max_waiting: usize) -> Arc<Self> {
        Arc::new(Self {
            waiting: AtomicUsize::new(0),
            max_waiting,
            gives_up_on_imports: AtomicBool::new(false),
            commits: Commits::default(),
            health: WriteHealth::default(),
        })
    }

    /// Admits a creation to the queue, or rejects it and counts the rejection.
    pub(crate) fn enter(&self) -> Result<()> {
        // Raised before it is compared, so that no two creations get the last place.
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting {
            self.leave(1);
            self.commits.rejected.add(1);
            let full = "too many writes are waiting".into();
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

    /// From now on, no write waits for an import that is being published: the server is about to end.
    pub(crate) fn give_up_on_imports(&self) {
        self.gives_up_on_imports.store(true, Ordering::Relaxed);
    }

    pub(crate) fn waits_for_imports(&self) -> bool {
        !self.gives_up_on_imports.load(Ordering::Relaxed)
    }

    /// Records a committed transaction with these creations.
    pub(crate) fn committed<'a>(&self, created: impl Iterator<Item = &'a CreationOutcome>) {
        let (mut creations, mut new) = (0, 0);
        for created in created {
            creations += 1;
            new += usize::from(matches!(created, CreationOutcome::New(_)));
        }
        self.health.succeeded(creations > 0);
        self.commits.done.add(1);
        if new > 0 {
            self.commits.rows.record(new as u64);
        }
    }

    /// Records a failed transaction. The error is for the log; its kind may be shown to anyone.
    pub(crate) fn failed(
        &self,
        error: &dyn std::fmt::Display,
        kind: &'static str,
        of_creations: bool,
    ) {
        self.commits.failed.add(1);
        self.health.failed(error, kind, of_creations);
    }
}

/// The state and the thread of a writer. Dropping it waits for the thread, so its queue has to be dropped before.
pub(crate) struct WriterMonitor {
    pub(crate) state: Arc<WriterState>,
    /// None if the database is open for reading only.
    pub(crate) thread: Option<WriterThread>,
}

impl WriterMonitor {
    pub(crate) fn alive(&self) -> Result<()> {
        self.thread.as_ref().ok_or_else(writer_stopped)?.alive()
    }

    /// Returns when the writer has died: nothing can be acknowledged any more.
    pub(crate) async fn died(&self) {
        match &self.thread {
            Some(thread) => thread.died().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(state.commits.rejected.get(), 3);
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
            let commits = &state.commits;
            let transactions = commits.rows.buckets().map(|(_, count)| count).sum::<u64>();
            let counts = (commits.done.get(), commits.failed.get());
            (counts, (transactions, commits.rows.sum()))
        };
        state.failed(&"database or disk is full", "disk full", true);
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
        let mut monitor = WriterMonitor {
            state: WriterState::new(1),
            thread: None,
        };
        assert!(monitor.alive().is_err());
        assert_eq!(monitor.died().now_or_never(), None);
        let (queue, jobs) = std::sync::mpsc::channel::<()>();
        let work = move |_alive| while jobs.recv().is_ok() {};
        monitor.thread = Some(WriterThread::start("test", work).expect("a thread"));
        assert!(monitor.alive().is_ok());
        assert_eq!(monitor.died().now_or_never(), None);
        drop(queue);
    }
}
