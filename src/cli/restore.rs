//! `animal-store restore`: replaces the embedded database, which no server may use meanwhile, with a backup.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::task;

use super::confirm::{confirm_unless_stopped, require_terminal};
use super::database::CommandOptions;
use super::outcome::{Failure, Outcome};
use super::print;
use super::progress::{BYTES_TEMPLATE, progress_bar, watch};
use super::signals::Signals;
use crate::clock::Clock;
use crate::store::{
    BackupProgress, Database, ReactivatedKey, ReactivatedKeys, Restore, RestoreError,
};

/// The consequence of a signal that stops it.
const NOTHING_RESTORED: &str = "nothing was restored";

/// Replace the embedded database with a backup; stop the server first.
///
/// The backup is copied and checked first. The database that it replaces is kept under a name that is printed.
#[derive(Debug, clap::Args)]
pub(super) struct RestoreCommand {
    /// Backup, made with `animal-store backup` or `serve --backup-folder`
    file: PathBuf,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    options: CommandOptions,
}

impl RestoreCommand {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        let database = self.options.database();
        let Database::Sqlite(target) = database else {
            return Err(Failure::Usage(format!(
                "restore is for the embedded database: to restore {database}, stop all nodes, and use pg_restore --dbname=URL FILE on an empty database"
            )));
        };
        let file = self.file.display();
        if !self.yes {
            let verb = verb(target.exists());
            require_terminal(&format!("{database} would be {verb} {file}"))?;
        }
        let mut signals = Signals::of_command().context("cannot listen for signals")?;
        let progress = Arc::new(BackupProgress::default());
        let (from, to, watched) = (self.file.clone(), target.clone(), Arc::clone(&progress));
        let preparing = task::spawn_blocking(move || Restore::prepare(&from, &to, &watched));
        let bar = progress_bar("restoring", BYTES_TEMPLATE);
        let (prepared, stopped_by) = watch(&bar, &progress, &signals, preparing).await?;
        drop(bar);
        let stopped = |signal| Failure::Failed(format!("stopped by {signal}: {NOTHING_RESTORED}"));
        if let Some(signal) = stopped_by {
            return Err(stopped(signal));
        }
        let prepared = prepared.map_err(failure)?;
        if !self.yes {
            let keys = describe(prepared.reactivated().as_ref());
            let lines: String = keys.iter().map(|line| format!("; {line}")).collect();
            let verb = verb(prepared.replaces());
            let question = format!("{database} will be {verb} {file}{lines}");
            confirm_unless_stopped(question, &mut signals, NOTHING_RESTORED).await?;
        }
        let (bytes, format) = (prepared.bytes, prepared.format);
        let now = clock.now();
        let watched = Arc::clone(&progress);
        let replacing = task::spawn_blocking(move || prepared.put_in_place(now, &watched));
        let bar = ProgressBar::hidden();
        let (done, stopped_by) = watch(&bar, &progress, &signals, replacing).await?;
        let done = done.map_err(|error| match (error, stopped_by) {
            (RestoreError::Interrupted, Some(signal)) => stopped(signal),
            (error, _) => failure(error),
        })?;
        if let Some(signal) = stopped_by {
            print::notice(&format!(
                "animal-store: {signal} came too late to stop the restore, which is complete"
            ));
        }
        if let Some(access) = &done.access {
            let warning = access.warning(database);
            print::notice(&format!("animal-store: warning: {warning}"));
        }
        let kept = done.kept.map(|path| path.display().to_string());
        let mut lines = vec![format!(
            "restored {database} from {file}: {bytes} bytes, format {format}"
        )];
        if let Some(kept) = &kept {
            let kept_file = match ["-wal", "-journal", "-shm"]
                .iter()
                .any(|end| kept.ends_with(end))
            {
                true => "the log or journal that was left without a database",
                false => "the previous database",
            };
            lines.push(format!("{kept_file} is kept as {kept}"));
        }
        lines.extend(describe(done.reactivated.as_ref()));
        let keys = |select: fn(&ReactivatedKeys) -> &Vec<ReactivatedKey>| -> Value {
            let row = |key: &ReactivatedKey| json!({"id": key.id.0, "name": key.name});
            let keys = done.reactivated.as_ref().map(select);
            keys.map(|keys| keys.iter().map(row).collect::<Vec<_>>())
                .into()
        };
        let report = json!({
            "database": database.to_string(),
            "file": file.to_string(),
            "bytes": bytes,
            "format": format,
            "kept": kept,
            "revokedSince": keys(|reactivated| &reactivated.revoked),
            "rotatedSince": keys(|reactivated| &reactivated.rotated),
        });
        let printed = print::result_lines(self.options.json, &report, &lines);
        // This is reported even if nobody reads the result.
        done.unsynced.map_or(printed, |error| Err(error.into()))
    }
}

fn verb(replaces: bool) -> &'static str {
    match replaces {
        true => "replaced with",
        false => "created from",
    }
}

/// Lines about the keys that a restore makes valid again.
fn describe(reactivated: Option<&ReactivatedKeys>) -> Vec<String> {
    let Some(ReactivatedKeys { revoked, rotated }) = reactivated else {
        let line = "the keys of the previous database cannot be read: keys revoked or rotated since the backup are as they were then";
        return vec![line.into()];
    };
    let list = |keys: &[ReactivatedKey]| {
        let key = |key: &ReactivatedKey| format!("{} ({})", key.id, key.name);
        keys.iter().map(key).collect::<Vec<_>>().join(", ")
    };
    let mut lines = Vec::new();
    if !revoked.is_empty() {
        let keys = list(revoked);
        lines.push(format!(
            "the restore makes keys that were revoked since the backup valid again: {keys}"
        ));
    }
    if !rotated.is_empty() {
        let keys = list(rotated);
        lines.push(format!(
            "the restore gives keys that were rotated since the backup their former secrets again: {keys}"
        ));
    }
    lines
}

/// Only naming the database itself as the backup is a usage error.
fn failure(error: RestoreError) -> Failure {
    match error {
        RestoreError::SameFile(_) => Failure::Usage(error.to_string()),
        other => Failure::from(anyhow::Error::from(other)),
    }
}
