//! `animal-store backup`: a copy of the embedded database, even while a server uses it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;
use tokio::task;
use tokio::time::Instant;

use super::database::CommandOptions;
use super::outcome::{Failure, Outcome};
use super::print;
use super::progress::{BYTES_TEMPLATE, progress_bar, watch};
use super::signals::Signals;
use crate::new_file::Overwrite;
use crate::store::{BackupError, BackupProgress, Database, back_up};

/// Back up the embedded database, even while the server is running.
///
/// The backup is a consistent copy in one file. It is checked, and appears under its name only when it is complete and on disk.
#[derive(Debug, clap::Args)]
pub(super) struct BackupCommand {
    /// File to write
    file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    options: CommandOptions,
}

impl BackupCommand {
    pub(super) async fn run(self) -> Outcome {
        let began = Instant::now();
        let database = self.options.database();
        let Database::Sqlite(source) = database else {
            return Err(Failure::Usage(format!(
                "backup is for the embedded database: back up {database} with pg_dump --format=custom --file=FILE"
            )));
        };
        if self.file.as_os_str() == "-" {
            let problem = "a backup is a file, not a stream: name the file to write";
            return Err(Failure::Usage(problem.into()));
        }
        let overwrite = match self.force {
            true => Overwrite::Yes,
            false => Overwrite::No,
        };
        let signals = Signals::of_command().context("cannot listen for signals")?;
        let progress = Arc::new(BackupProgress::default());
        let (from, to, watched) = (source.clone(), self.file.clone(), Arc::clone(&progress));
        let backup = task::spawn_blocking(move || back_up(&from, &to, overwrite, &watched));
        let bar = progress_bar("backing up", BYTES_TEMPLATE);
        let (finished, stopped_by) = watch(&bar, &progress, &signals, backup).await?;
        drop(bar);
        let bytes = finished.map_err(|error| match (error, stopped_by) {
            (BackupError::Interrupted, Some(signal)) => {
                Failure::Failed(format!("stopped by {signal}: no backup was made"))
            }
            (error, _) => failure(error),
        })?;
        let (file, seconds) = (self.file.display(), began.elapsed().as_secs_f64());
        let report =
            json!({"file": file.to_string(), "bytes": bytes, "seconds": print::rounded(seconds)});
        let text = format!("backed up {database} to {file}: {bytes} bytes in {seconds:.1} s");
        print::result(self.options.json, &report, &text)
    }
}

/// A target that is unsuitable is a usage error.
fn failure(error: BackupError) -> Failure {
    match error {
        BackupError::InUse(..) => Failure::Usage(error.to_string()),
        BackupError::File(error) => error.into(),
        other => Failure::from(anyhow::Error::from(other)),
    }
}
