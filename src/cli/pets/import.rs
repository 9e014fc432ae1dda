//! `animal-store pets import`: animals from a file, all or nothing. They are read on a thread of their own, staged, and become visible
//! together.

use std::fs::Metadata;
use std::future::pending;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::super::database::{CommandOptions, print_wait};
use super::super::outcome::{Failure, Outcome};
use super::super::print;
use super::super::progress::{BYTES_TEMPLATE, STREAM_TEMPLATE, progress_bar};
use super::super::signals::Signals;
use super::bad_lines::{BadLines, cannot_import};
use super::format::{PetFile, RowFormat, reject_database};
use super::row_source::RowSource;
use crate::clock::{Clock, Timestamp};
use crate::pet::IdSource;
use crate::store::{Import, ImportError, ImportRow, Mode, Store};

/// How long a database may still take to be created after a signal.
const OPEN_GRACE: Duration = Duration::from_millis(500);

/// Import animals from a file, even while the server is running.
///
/// Either all of them become visible together, or, if a line is bad, none. A missing database is created, and one of an
/// earlier database format (schema version) is migrated.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportCommand {
    /// File to read, ending in .ndjson or .csv, and then .gz or .zst if it is compressed; - for standard input
    file: PathBuf,
    /// Format; by default that of the file's extension, and NDJSON on standard input
    #[arg(long)]
    format: Option<RowFormat>,
    /// Leave out bad lines instead of importing nothing, and print the first 20 of them
    #[arg(long)]
    skip_bad: bool,
    /// Print all bad lines
    #[arg(long, requires = "skip_bad")]
    verbose: bool,
    /// Keep the IDs in the file, none of which may be taken; by default animals get new ones
    #[arg(long)]
    keep_ids: bool,
    #[command(flatten)]
    options: CommandOptions,
}

impl ImportCommand {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        let began = Instant::now();
        let file = PetFile::of(&self.file, self.format)?;
        // A low priority, so that a server on the same machine goes first: without it, the 99th percentile of its reads was 3 to 5
        // times as long. Threads that are started from here on inherit it.
        let _ = rustix::process::nice(10);
        let ids = match self.keep_ids {
            true => IdSource::Kept,
            false => IdSource::New,
        };
        let name = match &file.path {
            Some(path) => path.display().to_string(),
            None => "standard input".into(),
        };
        if let Some(path) = &file.path {
            reject_database(self.options.database(), path)?;
        }
        let found = file.path.as_ref().and_then(|path| path.metadata().ok());
        let length = found.filter(Metadata::is_file).map(|file| file.len());
        let template = match length {
            Some(_) => BYTES_TEMPLATE,
            None => STREAM_TEMPLATE,
        };
        let bar = progress_bar("importing", template);
        if let Some(length) = length {
            bar.set_length(length);
        }
        let mut signals = Signals::of_command().context("cannot listen for signals")?;
        let mut source =
            RowSource::open(file, ids, self.skip_bad).context("cannot start a thread")?;
        let mut bad = BadLines::new(&name, &bar, self.skip_bad, self.verbose);
        // Before the database is opened, and perhaps created.
        let rows = interruptible(&mut signals, source.good_rows(&mut bad)).await?;
        let (store, _) = open_unless_stopped(&mut signals, &self.options, clock).await?;
        let importing = async {
            let inserting = stage_and_insert(&store, ids, rows, &mut source, &mut bad);
            let (import, staged) = interruptible(&mut signals, inserting).await?;
            let imported = import.commit().await.map_err(|error| match error {
                ImportError::Unconfirmed(_) => Failure::Failed(format!("{name}: {error}")),
                error => Failure::Failed(format!("{}: {error}", cannot_import(&name))),
            })?;
            Ok::<_, Failure>((imported, staged.elapsed()))
        };
        let (imported, insert_time) = match importing.await {
            Ok(imported) => imported,
            Err(failure) => {
                store.discard();
                return Err(failure);
            }
        };
        bad.print_rest();
        let bad = bad.count();
        drop(bar);
        let seconds = began.elapsed().as_secs_f64();
        let insert_time = print::rounded(insert_time.as_secs_f64());
        let report = json!({"imported": imported, "bad": bad, "seconds": print::rounded(seconds), "insertSeconds": insert_time});
        let animals = print::counted(imported, "animal");
        let mut text = format!("imported {animals} from {name} in {seconds:.1} s");
        match bad {
            0 => {}
            1 => text.push_str("; 1 bad line was left out"),
            _ => text.push_str(&format!("; {bad} bad lines were left out")),
        }
        print::result(self.options.json, &report, &text)
    }
}

fn print_import_wait() {
    print::notice("animal-store: waiting for another import or a copy to finish");
}

/// Stages these and all other good rows and inserts them: everything but the commit. Returns the import, and the time at which all
/// rows were staged.
async fn stage_and_insert(
    store: &Store,
    ids: IdSource,
    mut rows: Option<Vec<ImportRow>>,
    source: &mut RowSource,
    bad: &mut BadLines<'_>,
) -> Result<(Import, Instant), Failure> {
    let name = bad.name;
    let failure = || cannot_import(name);
    let import = store.import(ids, print_wait, print_import_wait).await;
    let mut import = import.with_context(failure)?;
    while let Some(batch) = rows {
        let mut conflict = |conflict| bad.conflict(conflict);
        let staged = import.stage(&batch, &mut conflict).await;
        staged.with_context(failure)?;
        bad.check()?;
        bad.bar.set_position(source.bytes_read());
        // The next batch may have been read already: a signal is noticed here.
        yield_now().await;
        rows = source.good_rows(bad).await?;
    }
    let checked = import.check(&mut |conflict| bad.conflict(conflict)).await;
    checked.with_context(failure)?;
    bad.check()?;
    let staged = Instant::now();
    import.insert().await.with_context(failure)?;
    yield_now().await;
    Ok((import, staged))
}

/// Waits for something, or fails because of a signal.
async fn interruptible<T>(
    signals: &mut Signals,
    awaited: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        signal = signals.first() => {
            Err(Failure::Failed(format!("stopped by {signal}: nothing was imported")))
        }
        done = awaited => done,
    }
}

/// Opens the database, and creates it if it is missing. After a signal, opening gets `OPEN_GRACE` to finish, so that a database it has
/// created can be removed; it no longer waits for other processes.
async fn open_unless_stopped(
    signals: &mut Signals,
    options: &CommandOptions,
    clock: &Clock,
) -> Result<(Store, Timestamp), Failure> {
    let mut opening = pin!(options.open(Mode::Migrate, clock));
    tokio::select! {
        opened = &mut opening => return opened,
        _ = signals.first() => {}
    }
    if let Ok(opened) = timeout(OPEN_GRACE, opening).await {
        opened?.0.discard();
    }
    interruptible(signals, pending()).await
}
