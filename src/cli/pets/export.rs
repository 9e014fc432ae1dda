//! `animal-store pets export`: all animals at one point in time, in a file or on standard output.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use futures_util::TryStreamExt;
use serde_json::json;
use tokio::time::Instant;

use super::super::database::CommandOptions;
use super::super::outcome::{Failure, Outcome};
use super::super::print;
use super::super::progress::Progress;
use super::super::signals::Signals;
use super::format::{FileFormat, Format};
use super::writer::RowWriter;
use crate::clock::Clock;
use crate::new_file::{NewFile, NewFileError, Overwrite};
use crate::pet::{Pet, PetStatus};
use crate::store::{Database, Mode, RowStream};

/// How many animals are written between two updates of the bar.
const REDRAW: u64 = 1_000;

/// Export all animals as they are at one point in time.
///
/// A file appears under its name only when it is complete and on disk.
#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// File to write, ending in .ndjson or .csv, and then .gz or .zst to compress it; - for standard output
    file: PathBuf,
    /// Format; by default that of the file's ending, and NDJSON on standard output
    #[arg(long)]
    format: Option<Format>,
    /// Only animals of this status
    #[arg(long)]
    status: Option<PetStatus>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    options: CommandOptions,
}

impl Export {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        let began = Instant::now();
        let file = FileFormat::of(&self.file, self.format)?;
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let (store, _) = self.options.open(Mode::ReadOnly, clock).await?;
        let failure = "cannot read the animals";
        let pets = store.pets_at_once(self.status).await.context(failure)?;
        let Some(path) = &file.path else {
            let writer = RowWriter::new(io::stdout(), &file).map_err(print::write_failed)?;
            write(pets, writer, &mut signals, &print::write_failed).await?;
            return Ok(());
        };
        reject_database(self.options.database(), path)?;
        let overwrite = match self.force {
            true => Overwrite::Yes,
            false => Overwrite::No,
        };
        let new = NewFile::create(path, overwrite).map_err(new_file_failed)?;
        let failed = |error| new_file_failed(NewFileError::Failed(path.clone(), error));
        let writer = RowWriter::new(new.file(), &file).map_err(failed)?;
        let animals = write(pets, writer, &mut signals, &failed).await?;
        new.publish().map_err(new_file_failed)?;
        let (file, seconds) = (path.display(), began.elapsed().as_secs_f64());
        let report = || json!({"file": file.to_string(), "animals": animals, "seconds": (seconds * 1e3).round() / 1e3});
        let text = format!("exported {animals} animals to {file} in {seconds:.1} s");
        print::result(self.options.json, report, &text)
    }
}

/// Writes all animals, and returns their number.
async fn write(
    mut pets: RowStream<'_, Pet>,
    mut writer: RowWriter<impl Write>,
    signals: &mut Signals,
    failed: &impl Fn(io::Error) -> Failure,
) -> Result<u64, Failure> {
    let bar = Progress::of_animals("exporting");
    let mut animals = 0_u64;
    loop {
        let next = tokio::select! {
            biased;
            name = signals.first() => {
                return Err(Failure::Failed(format!("stopped by {name}: nothing was exported")));
            }
            next = pets.try_next() => next.context("cannot read the animals")?,
        };
        let Some(pet) = next else { break };
        writer.write(&pet).map_err(failed)?;
        animals += 1;
        if animals.is_multiple_of(REDRAW) {
            bar.set_done(animals);
        }
    }
    writer.finish().map_err(failed)?;
    Ok(animals)
}

/// A file that cannot be the target is wrong usage.
fn new_file_failed(error: NewFileError) -> Failure {
    match error {
        NewFileError::Exists(_) | NewFileError::NotAFile(_) => Failure::Usage(error.to_string()),
        NewFileError::Failed(..) => Failure::Failed(error.to_string()),
    }
}

/// Rejects the database itself, by any of its names.
fn reject_database(database: &Database, target: &Path) -> Outcome {
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino())).ok();
    let target_file = identity(target);
    if let Database::Sqlite(path) = database
        && target_file.is_some()
        && ["", "-wal", "-shm", ".lock"].iter().any(|ending| {
            let mut name = path.clone().into_os_string();
            name.push(ending);
            identity(Path::new(&name)) == target_file
        })
    {
        let target = target.display();
        return Err(Failure::Usage(format!(
            "{target} belongs to the database itself: choose another name"
        )));
    }
    Ok(())
}
