//! `animal-store pets import`: animals from a file, all or nothing. They are read on a thread of their own, staged, and become visible
//! together.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::database::{CommandOptions, print_wait};
use super::super::outcome::{Failure, Outcome};
use super::super::print;
use super::super::progress::Progress;
use super::super::signals::Signals;
use super::format::{FileFormat, Format};
use super::reader::{NumberedRow, RowReader};
use crate::clock::Clock;
use crate::pet::PetIds;
use crate::store::{Conflict, Import as StoreImport, ImportRow, Mode};

/// How many rows are staged at once.
const BATCH: usize = 2_000;

/// How many batches are read ahead.
const BATCHES: usize = 4;

/// How many bad lines are printed without --verbose.
const PRINTED: u64 = 20;

/// Import animals from a file, also while the server runs.
///
/// Either all of them become visible together, or, if a line is bad, none. A missing database is created.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// File to read, ending in .ndjson or .csv, and then .gz or .zst if it is compressed; - for standard input
    file: PathBuf,
    /// Format; by default that of the file's ending, and NDJSON on standard input
    #[arg(long)]
    format: Option<Format>,
    /// Leave out bad lines instead of importing nothing, and print the first 20 of them
    #[arg(long)]
    skip_bad: bool,
    /// Print all bad lines
    #[arg(long, requires = "skip_bad")]
    verbose: bool,
    /// Keep the IDs in the file, which no animal may have; by default animals get new ones
    #[arg(long)]
    keep_ids: bool,
    #[command(flatten)]
    options: CommandOptions,
}

impl Import {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        let began = Instant::now();
        let file = FileFormat::of(&self.file, self.format)?;
        // A server on the same machine goes first: otherwise the 99th percentile of its reads was 3 to 5 times as long. Threads that are
        // started from here on inherit it.
        let _ = rustix::process::nice(10);
        let ids = match self.keep_ids {
            true => PetIds::Kept,
            false => PetIds::New,
        };
        let name = match &file.path {
            Some(path) => path.display().to_string(),
            None => "standard input".into(),
        };
        let unreadable = |what: String| Failure::Failed(format!("cannot import {name}: {what}"));
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let taken = Arc::new(AtomicU64::new(0));
        let length = file.path.as_ref().and_then(|path| path.metadata().ok());
        let bar = Progress::of_file("importing", length.map(|file| file.len()));
        let reader = RowReader::open(&file, ids, Arc::clone(&taken)).map_err(unreadable)?;
        let (store, _) = self.options.open(Mode::Migrate, clock).await?;
        let failure = || format!("cannot import {name}");
        let mut import = store.import(ids, print_wait).await.with_context(failure)?;
        let mut bad = BadLines {
            name: &name,
            bar: &bar,
            skip: self.skip_bad,
            verbose: self.verbose,
            count: 0,
            first: None,
        };
        let mut batches = read_ahead(reader).context("cannot start a thread")?;
        loop {
            let batch = tokio::select! {
                biased;
                signal = signals.first() => {
                    return Err(Failure::Failed(format!("stopped by {signal}: nothing was imported")));
                }
                batch = batches.recv() => batch,
            };
            let Some(batch) = batch else { break };
            let rows = bad.sort_out(batch.map_err(unreadable)?);
            stage(&mut import, &rows, &mut bad)
                .await
                .with_context(failure)?;
            bad.rejected()?;
            bar.set_done(taken.load(Ordering::Relaxed));
        }
        let checked = import.check(&mut |conflict| bad.conflict(conflict)).await;
        checked.with_context(failure)?;
        bad.rejected()?;
        let staged = Instant::now();
        let imported = import.publish().await.with_context(failure)?;
        let publish_seconds = rounded(staged.elapsed().as_secs_f64());
        bad.print_rest();
        let bad = bad.count;
        drop(bar);
        let seconds = began.elapsed().as_secs_f64();
        let report = || json!({"imported": imported, "bad": bad, "seconds": rounded(seconds), "publishSeconds": publish_seconds});
        let mut text = format!("imported {imported} animals from {name} in {seconds:.1} s");
        if bad > 0 {
            text.push_str(&format!("; {bad} bad lines were left out"));
        }
        print::result(self.options.json, report, &text)
    }
}

/// Seconds with three digits behind the point.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

async fn stage(
    import: &mut StoreImport,
    rows: &[ImportRow],
    bad: &mut BadLines<'_>,
) -> crate::store::Result<()> {
    import
        .stage(rows, &mut |conflict| bad.conflict(conflict))
        .await
}

/// Reads and parses rows on a thread, a few batches ahead.
fn read_ahead(
    mut reader: RowReader,
) -> std::io::Result<mpsc::Receiver<Result<Vec<NumberedRow>, String>>> {
    let (sender, receiver) = mpsc::channel(BATCHES);
    let read = move || {
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            let ended = loop {
                match reader.next() {
                    Ok(Some(row)) => batch.push(row),
                    Ok(None) => break Some(Ok(())),
                    Err(error) => break Some(Err(error)),
                }
                if batch.len() == BATCH {
                    break None;
                }
            };
            // Rows before an error first: one of them may be bad, too. If nobody receives them, the command has failed.
            if sender.blocking_send(Ok(batch)).is_err() {
                return;
            }
            match ended {
                None => {}
                Some(Ok(())) => return,
                Some(Err(error)) => {
                    let _ = sender.blocking_send(Err(error));
                    return;
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("reader".into());
    thread.spawn(read)?;
    Ok(receiver)
}

/// Lines that cannot be imported.
struct BadLines<'a> {
    name: &'a str,
    bar: &'a Progress,
    skip: bool,
    verbose: bool,
    count: u64,
    /// The first one, if bad lines are not left out.
    first: Option<Failure>,
}

impl BadLines<'_> {
    /// The good rows.
    fn sort_out(&mut self, rows: Vec<NumberedRow>) -> Vec<ImportRow> {
        let mut good = Vec::with_capacity(rows.len());
        for (line, row) in rows {
            match row {
                Ok(row) => good.push(ImportRow { line, row }),
                Err(problem) => self.report(line, &problem),
            }
        }
        good
    }

    fn conflict(&mut self, conflict: Conflict) {
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
        } else if self.verbose || self.count <= PRINTED {
            self.bar.notice(&format!("line {line}: {problem}"));
        }
    }

    /// Fails if there is a bad line that is not left out.
    fn rejected(&mut self) -> Outcome {
        self.first.take().map_or(Ok(()), Err)
    }

    fn print_rest(&self) {
        if !self.verbose && self.count > PRINTED {
            let rest = self.count - PRINTED;
            self.bar
                .notice(&format!("{rest} more bad lines: use --verbose to see them"));
        }
    }
}
