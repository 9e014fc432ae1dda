//! Background work, on a thread of its own: neither a request nor a slow page of the admin listener delays a revocation.
//! Each task is a small unit with its interval; a failure is counted, and logged once at each turn. A server whose background
//! work has died would go on serving keys that were revoked, so its end is the server's.

mod checks;
mod poll;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::shared::Shared;
use crate::metrics::Task;
use crate::store;
use poll::Poll;

/// How often what was counted is stored.
const FLUSH: Duration = Duration::from_secs(1);

/// How often records that are too old are deleted.
const SWEEP: Duration = Duration::from_secs(60);

/// The background work of one server.
#[derive(Debug)]
pub(super) struct Background {
    shared: Arc<Shared>,
    poll: Poll,
}

impl Background {
    /// Loads what the server needs before its first request.
    pub(super) async fn load(shared: Arc<Shared>) -> store::Result<Self> {
        let poll = Poll::load(&shared).await?;
        checks::run(&shared).await?;
        Ok(Self { shared, poll })
    }

    /// Runs all tasks until the server shuts down.
    pub(super) async fn run(mut self) {
        let (shared, poll) = (&*self.shared, &mut self.poll);
        let every = shared.store.poll_interval();
        tokio::join!(
            repeat(Task::Poll, every, shared, async || poll.run(shared).await),
            repeat(Task::Flush, FLUSH, shared, async || {
                let (directory, now) = (&shared.access.directory, shared.clock.now());
                shared
                    .write_behind
                    .flush(&shared.store, directory, now)
                    .await
            }),
            repeat(Task::Check, checks::EVERY, shared, async || {
                checks::run(shared).await
            }),
            repeat(Task::Sweep, SWEEP, shared, async || sweep::run(shared)
                .await),
        );
    }
}

/// Runs a task at this interval until the server shuts down.
async fn repeat(
    task: Task,
    every: Duration,
    shared: &Shared,
    mut work: impl AsyncFnMut() -> store::Result<()>,
) {
    let mut shutdown = shared.shutdown.clone();
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = shutdown.wait_for(|stop| *stop) => return,
        }
        // Whatever is under way can be left at any point, and may take longer than a shutdown.
        let done = tokio::select! {
            done = work() => done,
            _ = shutdown.wait_for(|stop| *stop) => return,
        };
        match &done {
            Err(error) => {
                shared.metrics.background_failures[task as usize].add(1);
                if !failing {
                    tracing::warn!(task = task.name(), %error, "a background task fails");
                }
            }
            Ok(()) if failing => {
                tracing::info!(task = task.name(), "a background task works again")
            }
            Ok(()) => {}
        }
        failing = done.is_err();
    }
}
