//! Background tasks, on a separate thread: neither a request nor a slow page of the admin listener delays a revocation.
//! Each task has its interval. A failure is counted, and logged when it starts and when it ends. Without this thread the server
//! would continue to accept revoked keys, so the server stops with it.

mod checks;
mod poll;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::shared::Shared;
use crate::metrics::BackgroundTask;
use crate::store;
use poll::Poller;

/// How often usage and bans are stored.
const FLUSH: Duration = Duration::from_secs(1);

/// How often old records are deleted.
const SWEEP: Duration = Duration::from_secs(60);

/// The background tasks of one server.
#[derive(Debug)]
pub(super) struct Background {
    shared: Arc<Shared>,
    poller: Poller,
}

impl Background {
    /// Loads the state that the server needs before its first request.
    pub(super) async fn load(shared: Arc<Shared>) -> store::Result<Self> {
        let poller = Poller::load(&shared).await?;
        checks::run(&shared).await?;
        Ok(Self { shared, poller })
    }

    /// Runs all tasks until the server shuts down.
    pub(super) async fn run(mut self) {
        let (shared, poller) = (&*self.shared, &mut self.poller);
        let every = shared.store.poll_interval();
        tokio::join!(
            repeat(BackgroundTask::Poll, every, shared, async || poller
                .run(shared)
                .await),
            repeat(BackgroundTask::Flush, FLUSH, shared, async || {
                let (directory, now) = (&shared.access.directory, shared.clock.now());
                shared
                    .write_behind
                    .flush(&shared.store, directory, now)
                    .await
            }),
            repeat(BackgroundTask::Check, checks::EVERY, shared, async || {
                checks::run(shared).await
            }),
            repeat(BackgroundTask::Sweep, SWEEP, shared, async || sweep::run(
                shared
            )
            .await),
        );
    }
}

/// Runs a task at this interval until the server shuts down.
async fn repeat(
    task: BackgroundTask,
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
        // Work in progress can be cancelled at any point, and may take longer than the shutdown.
        let done = tokio::select! {
            done = work() => done,
            _ = shutdown.wait_for(|stop| *stop) => return,
        };
        match &done {
            Err(error) => {
                shared.metrics.background_failures[task as usize].add(1);
                if !failing {
                    tracing::warn!(task = task.name(), %error, "background task failed");
                }
            }
            Ok(()) if failing => {
                tracing::info!(task = task.name(), "background task recovered")
            }
            Ok(()) => {}
        }
        failing = done.is_err();
    }
}
