//! The shared parts of the writers of both engines: a thread whose death is detected, a limit of waiting creations, and the outcome
//! of transactions.

mod commits;
mod health;
mod queue;
mod thread;

pub use commits::Commits;
pub(crate) use thread::{WriterThread, dead};

use std::sync::Arc;

use crate::store::contract::{Created, Result};
use health::WriteHealth;
use queue::QueueLimit;

/// State shared by the thread of a writer and its users.
#[derive(Debug)]
pub(crate) struct WriterState {
    queue: QueueLimit,
    commits: Commits,
    health: WriteHealth,
}

impl WriterState {
    /// The state of a writer for which at most `max_waiting` creations wait.
    pub(crate) fn new(max_waiting: usize) -> Arc<Self> {
        Arc::new(Self {
            queue: QueueLimit::at_most(max_waiting),
            commits: Commits::default(),
            health: WriteHealth::default(),
        })
    }

    /// Admits a creation to the queue.
    pub(crate) fn enter(&self) -> Result<()> {
        self.queue.enter(&self.commits)
    }

    /// Records that this number of creations have left the queue.
    pub(crate) fn leave(&self, creations: usize) {
        self.queue.leave(creations);
    }

    /// Records a committed transaction with these creations.
    pub(crate) fn committed<'a>(&self, created: impl Iterator<Item = &'a Created>) {
        self.health.succeeded();
        let is_new = |created: &&Created| matches!(created, Created::New(_));
        self.commits.committed(created.filter(is_new).count());
    }

    /// Records a failed transaction. The error is for the log; its kind may be shown to anyone.
    pub(crate) fn failed(&self, error: &dyn std::fmt::Display, kind: &'static str) {
        self.health.failed(error, kind);
    }
}

/// The state and the thread of a writer. Dropping it waits for the thread, so its queue has to be dropped before.
#[derive(Debug)]
pub(crate) struct WriterMonitor {
    state: Arc<WriterState>,
    /// None if the database is open for reading only.
    thread: Option<WriterThread>,
}

impl WriterMonitor {
    pub(crate) fn new(state: Arc<WriterState>, thread: Option<WriterThread>) -> Self {
        Self { state, thread }
    }

    pub(crate) fn state(&self) -> &WriterState {
        &self.state
    }

    pub(crate) fn commits(&self) -> &Commits {
        &self.state.commits
    }

    /// The number of creations in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.state.queue.len()
    }

    /// The kind of the last failure; none if the last transaction was committed.
    pub(crate) fn failure(&self) -> Option<&'static str> {
        self.state.health.failure()
    }

    pub(crate) fn alive(&self) -> Result<()> {
        self.thread.as_ref().ok_or_else(dead)?.alive()
    }

    /// Returns when the thread has died.
    pub(crate) async fn died(&self) {
        match &self.thread {
            Some(thread) => thread.died().await,
            None => std::future::pending().await,
        }
    }
}
