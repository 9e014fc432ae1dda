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

/// The work of a thread. Both return the time of the last backup.
#[derive(Clone, Copy)]
enum BackupJob {
    FindLast,
    Make,
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
    // A server that is restarted again and again makes no more backups than one that is not.
    let mut job = BackupJob::FindLast;
    let mut last = None;
    let mut is_failing = false;
    loop {
        let now = shared.clock.now();
        let Some(done) = perform(&folder, job, now, &mut shutdown).await else {
            return;
        };
        let mut pause = every.min(MAX_SLEEP);
        match done {
            Ok(found) => {
                last = found;
                let folder = folder.folder.display();
                let failed = std::mem::take(&mut is_failing);
                match std::mem::replace(&mut job, BackupJob::Make) {
                    BackupJob::FindLast => {
                        pause = Duration::ZERO;
                        if failed {
                            tracing::info!(%folder, "the backup folder can be read again");
                        }
                    }
                    BackupJob::Make if failed => {
                        tracing::info!(%folder, "backup made: backups succeed again");
                    }
                    BackupJob::Make => tracing::info!(%folder, "backup made"),
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
            if last.is_some_and(|last| BackupFolder::is_from_future(last, now)) {
                // The clock was set back since.
                (last, job) = (None, BackupJob::FindLast);
            }
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

/// Performs the job on a thread, and returns the time of the last backup, if there is one. None if the server shuts down.
async fn perform(
    folder: &BackupFolder,
    job: BackupJob,
    now: Timestamp,
    shutdown: &mut watch::Receiver<bool>,
) -> Option<anyhow::Result<Option<Timestamp>>> {
    let progress = Arc::new(BackupProgress::default());
    let (folder, running) = (folder.clone(), Arc::clone(&progress));
    let work = move || -> anyhow::Result<Option<Timestamp>> {
        match job {
            BackupJob::FindLast => folder.last(now),
            BackupJob::Make => folder.back_up(now, &running).map(Some),
        }
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
