//! The thread that reads and parses a file ahead of its import.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use super::super::outcome::Failure;
use super::bad_lines::{BadLines, cannot_import};
use super::format::PetFile;
use super::reader::{NumberedRow, RowReader};
use crate::pet::IdSource;
use crate::store::ImportRow;

/// How many rows are staged at once.
const BATCH_ROWS: usize = 2_000;

/// How many batches are read ahead.
const READ_AHEAD_BATCHES: usize = 4;

/// A file that is read and parsed on a thread, a few batches ahead. It may be a pipe, on which a thread blocks without noticing a
/// signal.
pub(super) struct RowSource {
    batches: mpsc::Receiver<Result<Vec<NumberedRow>, String>>,
    bytes_read: Arc<AtomicU64>,
    reader: Option<JoinHandle<()>>,
}

impl RowSource {
    pub(super) fn open(file: PetFile, ids: IdSource, skip_bad: bool) -> std::io::Result<Self> {
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

    /// How much of the file has been read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Waits for the next good rows. None at the end of the file.
    pub(super) async fn good_rows(
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
