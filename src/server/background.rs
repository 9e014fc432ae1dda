//! Background tasks, on a separate thread: neither a request nor a slow page of the admin listener delays a revocation.
//! Each task has its interval. A failure is counted. One that lasts is logged when it starts and when it ends, unless the store
//! has an outage, which is logged as such. Without this thread the server would continue to accept revoked keys, so the server
//! stops with it.

pub(super) mod backups;
pub(super) mod certificate;
mod checks;
mod heartbeat;
mod poll;
mod sweep;

use std::future::pending;
use std::io;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::shared::Shared;
use super::watchdog;
use super::watchdog::Watchdog;
use crate::metrics::BackgroundTask;
use crate::store::{self, DeploymentId};
pub(super) use poll::Applied;
use sweep::StepDetector;

/// How often usage and bans are stored.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// How long the checks take at most to detect an outage of the store.
const DETECTION_TIME: Duration = Duration::from_secs(1);

/// Loads the state that the server needs before its first request. Returns what it has applied.
pub(super) async fn load(shared: &Shared) -> store::Result<Applied> {
    let mut loaded = poll::load(shared).await?;
    // Keys may have changed meanwhile, and loading a million of them takes longer than they may be out of date.
    poll::run(shared, &mut loaded).await?;
    checks::run_once(shared).await;
    Ok(loaded)
}

/// Runs all tasks until the server shuts down, or until it cannot use the database any more.
pub(super) async fn run(
    shared: &Shared,
    mut applied: Applied,
    deployment: DeploymentId,
    watchdog: Option<Watchdog>,
) -> io::Result<()> {
    let poll_interval = shared.store.poll_interval();
    let poll = async || poll::run(shared, &mut applied).await;
    // Two tasks: usage does not wait for many bans.
    let flush_usage = async || shared.flush_usage().await;
    let flush_bans = async || shared.flush_bans().await;
    let mut step_detector = StepDetector::new(std::time::Instant::now(), shared.clock.now());
    let sweep = async || sweep::run(shared, &mut step_detector).await;
    let (end_reason, mut end_reasons) = mpsc::channel(1);
    let beat = async || heartbeat::beat(shared, &deployment, &end_reason).await;
    let mut shutdown = shared.shutdown.clone();
    let tasks = async {
        tokio::join!(
            repeat(BackgroundTask::Poll, poll_interval, shared, poll),
            repeat(BackgroundTask::Flush, FLUSH_INTERVAL, shared, flush_usage),
            repeat(BackgroundTask::Bans, FLUSH_INTERVAL, shared, flush_bans),
            checks::run(shared),
            repeat(BackgroundTask::Sweep, sweep::INTERVAL, shared, sweep),
            certificate::run(shared),
            repeat(BackgroundTask::Heartbeat, heartbeat::INTERVAL, shared, beat),
            watchdog::run(watchdog),
        );
    };
    // Work in progress can be cancelled at any point, and may take longer than the shutdown.
    let until_shutdown = async {
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => {}
            () = tasks => {}
        }
    };
    // A backup is interrupted instead.
    let all = join(until_shutdown, backups::run(shared, deployment.clone()));
    tokio::select! {
        _ = all => Ok(()),
        Some(reason) = end_reasons.recv() => Err(io::Error::other(reason)),
    }
}

/// Runs a task at this interval.
async fn repeat(
    task: BackgroundTask,
    every: Duration,
    shared: &Shared,
    mut work: impl AsyncFnMut() -> store::Result<()>,
) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failure: Option<TaskFailure> = None;
    loop {
        tokio::select! {
            biased;
            // Before the next run, which is due at once if the last one took longer than the interval.
            () = log_unless_outage(task, &mut failure, shared) => continue,
            _ = ticks.tick() => {}
        }
        match work().await {
            Err(error) => {
                shared.metrics.background_failures[task as usize].add(1);
                tracing::debug!(task = task.as_str(), %error, "background task failed");
                failure.get_or_insert_with(|| TaskFailure {
                    error,
                    at: Instant::now(),
                    is_logged: false,
                });
            }
            Ok(()) => {
                if failure.take().is_some_and(|failure| failure.is_logged) {
                    tracing::info!(task = task.as_str(), "background task succeeds again");
                }
            }
        }
    }
}

/// The first failure of a task since its last success.
struct TaskFailure {
    error: store::StoreError,
    at: Instant,
    is_logged: bool,
}

/// Logs a failure that lasts, after the checks have had time to detect an outage of the store. During an outage, which is logged
/// already, it waits; without a failure to log, it does not return.
async fn log_unless_outage(
    task: BackgroundTask,
    failure: &mut Option<TaskFailure>,
    shared: &Shared,
) {
    let Some(failure) = failure.as_mut().filter(|failure| !failure.is_logged) else {
        return pending().await;
    };
    sleep_until(failure.at + DETECTION_TIME).await;
    while shared.readiness.in_outage() {
        sleep(DETECTION_TIME).await;
    }
    tracing::warn!(task = task.as_str(), error = %failure.error, "background task failed");
    failure.is_logged = true;
}
