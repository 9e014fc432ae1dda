//! `animal-store pets export`: all animals at one point in time, in a file or on standard output.

use std::future::pending;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use futures_util::TryStreamExt;
use indicatif::ProgressBar;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::super::database::CommandOptions;
use super::super::outcome::{Failure, Outcome};
use super::super::print;
use super::super::progress::{
    PETS_TEMPLATE, PETS_WITHOUT_TOTAL_TEMPLATE, progress_bar, set_template,
};
use super::super::signals::Signals;
use super::format::{PetFile, RowFormat, reject_database, reject_other_database};
use super::writer::RowWriter;
use crate::clock::Clock;
use crate::new_file::{NewFile, NewFileError, Overwrite};
use crate::pet::{Pet, PetStatus};
use crate::store::{Mode, RowStream};

/// How many animals are written between two updates of the bar.
const ROWS_PER_REDRAW: u64 = 1_000;

/// How long an export from PostgreSQL waits for the number of animals, which only the bar shows. SQLite counts on this thread, so
/// there the timeout has no effect.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// Export all animals as they are at one point in time.
///
/// A file appears under its name only when it is complete and on disk.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportCommand {
    /// File to write, ending in .ndjson or .csv, and then .gz or .zst to compress it; - for standard output
    file: PathBuf,
    /// Format; by default that of the file's extension, and NDJSON on standard output
    #[arg(long)]
    format: Option<RowFormat>,
    /// Only animals with this status
    #[arg(long)]
    status: Option<PetStatus>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    options: CommandOptions,
}

impl ExportCommand {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        let began = Instant::now();
        let file = PetFile::of(&self.file, self.format)?;
        if file.path.is_none() && (self.force || self.options.json) {
            let problem = "--force and --json are for files: standard output has only the animals";
            return Err(Failure::Usage(problem.into()));
        }
        let (store, _) = self.options.open(Mode::ReadOnly, clock).await?;
        let bar = match file.path.is_none() && io::stdout().is_terminal() {
            true => ProgressBar::hidden(),
            false => progress_bar("exporting", PETS_TEMPLATE),
        };
        let failure = "cannot read the animals";
        if !bar.is_hidden() {
            match timeout(COUNT_TIMEOUT, store.count_pets()).await {
                Ok(Ok(counts)) => bar.set_length(total(counts, self.status)),
                // The animals may be readable nevertheless.
                _ => {
                    set_template(&bar, PETS_WITHOUT_TOTAL_TEMPLATE);
                    bar.tick();
                }
            }
        }
        let pets = store.pets_snapshot(self.status).await.context(failure)?;
        let Some(path) = &file.path else {
            let writer = RowWriter::new(io::stdout(), &file).map_err(print::write_failed)?;
            // A signal terminates the process: there is nothing to clean up, and a blocked write to a pipe would keep it from being
            // handled.
            write(pets, writer, &bar, pending(), &print::write_failed).await?;
            return Ok(());
        };
        let mut signals = Signals::of_command().context("cannot listen for signals")?;
        reject_database(self.options.database(), path)?;
        reject_other_database(path)?;
        let overwrite = match self.force {
            true => Overwrite::Yes,
            false => Overwrite::No,
        };
        // The new file gets the mode and the owner of the one that it replaces, whose readers may be other users; but not those of
        // a file that somebody creates meanwhile.
        let replaced = path.metadata().ok().filter(|_| self.force);
        let new = NewFile::create(path, overwrite)?;
        let failed = |error| Failure::from(NewFileError::Failed(path.clone(), error));
        let writer = RowWriter::new(new.file(), &file).map_err(failed)?;
        let animals = write(pets, writer, &bar, signals.first(), &failed).await?;
        if let Some(replaced) = replaced {
            new.set_access_of(&replaced)?;
        }
        new.publish()?;
        drop(bar);
        let (file, seconds) = (path.display(), began.elapsed().as_secs_f64());
        let report = json!({"file": file.to_string(), "animals": animals, "seconds": print::rounded(seconds)});
        let animals = print::counted(animals, "animal");
        let text = format!("exported {animals} to {file} in {seconds:.1} s");
        print::result(self.options.json, &report, &text)
    }
}

/// How many animals there are of this status, or of all.
fn total(counts: [i64; PetStatus::ALL.len()], status: Option<PetStatus>) -> u64 {
    let counts = PetStatus::ALL.into_iter().zip(counts);
    let wanted = counts.filter(|(of, _)| status.is_none_or(|status| status == *of));
    wanted.map(|(_, count)| count.unsigned_abs()).sum()
}

/// Writes all animals, and returns their number.
async fn write(
    mut pets: RowStream<'_, Pet>,
    mut writer: RowWriter<impl Write>,
    bar: &ProgressBar,
    stopped: impl Future<Output = &'static str>,
    failed: &impl Fn(io::Error) -> Failure,
) -> Result<u64, Failure> {
    let mut stopped = pin!(stopped);
    let mut animals = 0_u64;
    loop {
        let next = tokio::select! {
            biased;
            name = &mut stopped => {
                return Err(Failure::Failed(format!("stopped by {name}: nothing was exported")));
            }
            next = pets.try_next() => next.context("cannot read the animals")?,
        };
        let Some(pet) = next else { break };
        writer.write(&pet).map_err(failed)?;
        animals += 1;
        if animals.is_multiple_of(ROWS_PER_REDRAW) {
            bar.set_position(animals);
        }
    }
    writer.finish().map_err(failed)?;
    Ok(animals)
}
