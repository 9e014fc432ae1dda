//! `animal-store pets import`: animals from a file, all or nothing. They are read on a thread of their own, staged, and become visible
//! together.

use std::fs::Metadata;
use std::future::pending;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::super::database::{CommandOptions, print_wait};
use super::super::outcome::{Failure, Outcome};
use super::super::print;
use super::super::progress::{BYTES_TEMPLATE, STREAM_TEMPLATE, progress_bar};
use super::super::signals::Signals;
use super::format::{PetFile, RowFormat, reject_database};
use super::reader::{NumberedRow, RowReader};
use crate::clock::{Clock, Timestamp};
use crate::pet::IdSource;
use crate::store::{Import, ImportConflict, ImportError, ImportRow, Mode, Store};

/// How many rows are staged at once.
const BATCH_ROWS: usize = 2_000;

/// How many batches are read ahead.
const READ_AHEAD_BATCHES: usize = 4;

/// How long a database may still take to be created after a signal.
const OPEN_GRACE: Duration = Duration::from_millis(500);

/// How many bad lines are printed without --verbose.
const MAX_PRINTED_LINES: u64 = 20;

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
        // A low priority, so that a server on the same machine goes first: without it, the 99th percentile of its reads was 3 to 5 times
        // as long. Threads that are started from here on inherit it.
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
        let mut bad = BadLines {
            name: &name,
            bar: &bar,
            skip: self.skip_bad,
            verbose: self.verbose,
            count: 0,
            first: None,
        };
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
        let bad = bad.count;
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

fn cannot_import(name: &str) -> String {
    format!("cannot import {name}")
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
        bad.bar
            .set_position(source.bytes_read.load(Ordering::Relaxed));
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

/// A file that is read and parsed on a thread, a few batches ahead. It may be a pipe, on which a thread blocks without noticing a signal.
struct RowSource {
    batches: mpsc::Receiver<Result<Vec<NumberedRow>, String>>,
    bytes_read: Arc<AtomicU64>,
    reader: Option<JoinHandle<()>>,
}

impl RowSource {
    fn open(file: PetFile, ids: IdSource, skip_bad: bool) -> std::io::Result<Self> {
        let (sender, batches) = mpsc::channel(READ_AHEAD_BATCHES);
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes_read);
        let read = move || match RowReader::open(&file, ids, counted) {
            Ok(reader) => send_rows(reader, skip_bad, &sender),
            // If nobody receives it, the command has failed.
            Err(error) => drop(sender.blocking_send(Err(error))),
        };
        let reader = std::thread::Builder::new().name("reader".into());
        Ok(Self {
            batches,
            bytes_read,
            reader: Some(reader.spawn(read)?),
        })
    }

    /// Waits for the next good rows. None at the end of the file.
    async fn good_rows(
        &mut self,
        bad: &mut BadLines<'_>,
    ) -> Result<Option<Vec<ImportRow>>, Failure> {
        while let Some(batch) = self.next(bad.name).await? {
            let good = bad.good_rows(batch);
            bad.check()?;
            if !good.is_empty() {
                return Ok(Some(good));
            }
        }
        Ok(None)
    }

    async fn next(&mut self, name: &str) -> Result<Option<Vec<NumberedRow>>, Failure> {
        let failure = |cause| Failure::Failed(format!("{}: {cause}", cannot_import(name)));
        let batch = self.batches.recv().await;
        // A reader that panicked has ended too, but not at the end of the file.
        if batch.is_none() && self.reader.take().is_some_and(|it| it.join().is_err()) {
            return Err(failure("reading it failed".into()));
        }
        batch.transpose().map_err(failure)
    }
}

/// Sends all rows; without `skip_bad`, those up to the first bad one, with which the import fails.
fn send_rows(
    mut reader: RowReader,
    skip_bad: bool,
    sender: &mpsc::Sender<Result<Vec<NumberedRow>, String>>,
) {
    let mut ended = None;
    while ended.is_none() {
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        while batch.len() < BATCH_ROWS && ended.is_none() {
            match reader.next() {
                Ok(Some(row)) => {
                    if row.1.is_err() && !skip_bad {
                        ended = Some(Ok(()));
                    }
                    batch.push(row);
                }
                Ok(None) => ended = Some(Ok(())),
                Err(error) => ended = Some(Err(error)),
            }
        }
        // Rows before an error first: one of them may be bad, too.
        if sender.blocking_send(Ok(batch)).is_err() {
            // The command has failed.
            return;
        }
    }
    if let Some(Err(error)) = ended {
        let _ = sender.blocking_send(Err(error));
    }
}

/// Lines that cannot be imported.
struct BadLines<'a> {
    name: &'a str,
    bar: &'a ProgressBar,
    skip: bool,
    verbose: bool,
    count: u64,
    /// The first one, if bad lines are not left out.
    first: Option<Failure>,
}

impl BadLines<'_> {
    /// Returns the good rows, and reports the others.
    fn good_rows(&mut self, rows: Vec<NumberedRow>) -> Vec<ImportRow> {
        let mut good = Vec::with_capacity(rows.len());
        for (line, row) in rows {
            match row {
                Ok(row) => good.push(ImportRow { line, row }),
                Err(problem) => self.report(line, &problem),
            }
        }
        good
    }

    fn conflict(&mut self, conflict: ImportConflict) {
        self.report(conflict.line, &conflict.to_string());
    }

    fn report(&mut self, line: u64, problem: &str) {
        self.count += 1;
        if !self.skip {
            let name = self.name;
            self.first.get_or_insert_with(|| {
                Failure::Failed(format!(
                    "{name}, line {line}: {problem}: nothing was imported; --skip-bad leaves out such lines"
                ))
            });
        } else if self.verbose || self.count <= MAX_PRINTED_LINES {
            self.notice(&format!("line {line}: {problem}"));
        }
    }

    /// Fails if there is a bad line that is not left out.
    fn check(&mut self) -> Outcome {
        self.first.take().map_or(Ok(()), Err)
    }

    fn print_rest(&self) {
        if !self.verbose && self.count > MAX_PRINTED_LINES {
            let rest = print::counted(self.count - MAX_PRINTED_LINES, "more bad line");
            self.notice(&format!("{rest}: use --verbose to see them"));
        }
    }

    /// Prints a notice above the bar.
    fn notice(&self, text: &str) {
        self.bar.suspend(|| print::notice(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_panics_is_not_the_end_of_the_file() {
        let (sender, batches) = mpsc::channel(1);
        let reader = std::thread::spawn(move || {
            let _sender = sender;
            std::panic::resume_unwind(Box::new("without a message"))
        });
        let mut source = RowSource {
            batches,
            bytes_read: Arc::default(),
            reader: Some(reader),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let read = runtime.unwrap().block_on(source.next("a.csv"));
        let Err(Failure::Failed(problem)) = read else {
            unreachable!("it fails");
        };
        assert_eq!(problem, "cannot import a.csv: reading it failed");
    }
}
