//! Backups at an interval. Each runs on a separate thread: it takes long, and a folder on a network file system may not respond.
//! Each one is logged. Failures are counted, and logged when they begin and when they end; nothing else depends on them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::super::shared::Shared;
use crate::blocking::run_blocking;
use crate::clock::Timestamp;
use crate::config::Backups;
use crate::metrics::BackgroundTask;
use crate::store::{BackupFolder, BackupProgress, DeploymentId};

/// The longest sleep: after a backup or a failed attempt, and between two readings of the clock while none is due, because the
/// clock may be set, and keeps running while the machine is suspended.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// How long a shutdown waits for a backup to stop. What it leaves behind is removed by the next one.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long startup waits until it is known whether the folder can be used.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// What a thread has done.
enum BackupResult {
    Made(Timestamp),
    /// None was due: there is one of this time.
    NotDue(Timestamp),
}

/// Fails if no backups can be made in the folder. That a network file system does not respond is no reason not to serve.
pub(crate) async fn check(backups: &Backups) -> anyhow::Result<()> {
    let folder = backups.folder.clone();
    let checking = spawn_blocking(move || BackupFolder::check(&folder));
    let Ok(checked) = timeout(CHECK_TIMEOUT, checking).await else {
        return Ok(());
    };
    let folder = backups.folder.display();
    checked?.map_err(|problem| anyhow!("--backup-folder {folder}: {problem}"))
}

pub(super) async fn run(shared: &Shared, deployment: DeploymentId) {
    let Some(backups) = &shared.backups else {
        return;
    };
    let mut shutdown = shared.shutdown.clone();
    let folder = BackupFolder {
        source: backups.source.clone(),
        folder: backups.folder.clone(),
        deployment,
        keep: backups.keep,
    };
    let every = backups.every;
    let mut last = None;
    let mut is_failing = false;
    loop {
        let now = shared.clock.now();
        let Some(done) = back_up_if_due(&folder, every, now, &mut shutdown).await else {
            return;
        };
        let mut pause = every.min(MAX_SLEEP);
        match done {
            Ok(done) => {
                let folder = folder.folder.display();
                let failed = std::mem::take(&mut is_failing);
                let (time, message) = match done {
                    BackupResult::NotDue(time) => {
                        pause = Duration::ZERO;
                        (
                            time,
                            failed.then_some("the backup folder can be read again"),
                        )
                    }
                    BackupResult::Made(time) if failed => {
                        (time, Some("backup made: backups succeed again"))
                    }
                    BackupResult::Made(time) => (time, Some("backup made")),
                };
                last = Some(time);
                if let Some(message) = message {
                    tracing::info!(%folder, "{message}");
                }
            }
            Err(error) => {
                shared.metrics.background_failures[BackgroundTask::Backup as usize].add(1);
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::error!(%error, "backup failed: retrying until it succeeds");
                }
            }
        }
        loop {
            let now = shared.clock.now();
            // One from the future: the clock was set back since.
            last = last.filter(|last| !BackupFolder::is_from_future(*last, now));
            let shown = last.map_or(0, Timestamp::as_millis);
            shared.metrics.last_backup_at.set(shown);
            let due = last.map_or(Duration::ZERO, |last| remaining(last, every, now));
            let wait = std::mem::take(&mut pause).max(due.min(MAX_SLEEP));
            if wait.is_zero() {
                break;
            }
            tokio::select! {
                () = sleep(wait) => {}
                _ = shutdown.wait_for(|stop| *stop) => return,
            }
        }
    }
}

/// The time from `now` until the interval since `last` has passed.
fn remaining(last: Timestamp, every: Duration, now: Timestamp) -> Duration {
    let millis = last.plus(every).as_millis().saturating_sub(now.as_millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Makes a backup on a thread, unless the folder has one that is recent enough: a server that is restarted again and again, or whose
/// clock was behind, makes no more than others. None if the server shuts down.
async fn back_up_if_due(
    folder: &BackupFolder,
    every: Duration,
    now: Timestamp,
    shutdown: &mut watch::Receiver<bool>,
) -> Option<anyhow::Result<BackupResult>> {
    let progress = Arc::new(BackupProgress::default());
    let (folder, running) = (folder.clone(), Arc::clone(&progress));
    let work = move || match folder.last(now)? {
        Some(last) if !remaining(last, every, now).is_zero() => Ok(BackupResult::NotDue(last)),
        _ => folder.back_up(now, &running).map(BackupResult::Made),
    };
    let mut done = pin!(run_blocking("backup", work));
    tokio::select! {
        done = &mut done => return Some(done.map_err(anyhow::Error::from).flatten()),
        _ = shutdown.wait_for(|stop| *stop) => {}
    }
    progress.interrupt();
    let _ = timeout(STOP_TIMEOUT, done).await;
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_due_when_the_interval_since_the_last_one_has_passed() {
        let (last, every) = (Timestamp::from_secs(1_000), Duration::from_secs(60));
        for (now, wait) in [(1_000, 60), (1_059, 1), (1_060, 0), (9_000, 0), (900, 160)] {
            let now = Timestamp::from_secs(now);
            assert_eq!(
                remaining(last, every, now),
                Duration::from_secs(wait),
                "{now}"
            );
        }
    }
}
