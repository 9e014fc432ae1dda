//! The rows of a file, one after the other, in constant memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use csv::ByteRecord;
use flate2::bufread::MultiGzDecoder;

use super::format::{Compression, FileFormat, Format};
use super::zstd::ZstdReader;
use crate::pet::{CsvColumns, PetIds, PetRow};

/// The maximum length of a line: that of the body of a request.
const MAX_LINE: usize = 16 * 1024;

const BUFFER: usize = 64 * 1024;

/// A line with its number: an animal, or what is wrong with it.
pub(super) type NumberedRow = (u64, Result<PetRow, String>);

/// A file with animals. Errors are one line, without the name of the file.
pub(super) struct RowReader {
    rows: Rows,
    ids: PetIds,
}

enum Rows {
    Ndjson {
        input: Box<dyn BufRead + Send>,
        line: u64,
        text: Vec<u8>,
    },
    Csv {
        input: csv::Reader<Limited>,
        columns: CsvColumns,
        record: ByteRecord,
        taken: Arc<AtomicUsize>,
    },
}

impl RowReader {
    /// Opens a file, and reads its header line. `taken` counts its bytes as they are read.
    pub(super) fn open(
        file: &FileFormat,
        ids: PetIds,
        taken: Arc<AtomicU64>,
    ) -> Result<Self, String> {
        let input: Box<dyn Read + Send> = match &file.path {
            Some(path) => Box::new(File::open(path).map_err(|error| error.to_string())?),
            None => Box::new(io::stdin()),
        };
        let input = BufReader::with_capacity(BUFFER, Counted { input, taken });
        let input = decompressed(input, file.compression)?;
        let rows = match file.format {
            Format::Ndjson => Rows::Ndjson {
                input,
                line: 0,
                text: Vec::new(),
            },
            Format::Csv => csv_rows(input, ids)?,
        };
        Ok(Self { rows, ids })
    }

    /// The next row. An error is one after which nothing can be read.
    pub(super) fn next(&mut self) -> Result<Option<NumberedRow>, String> {
        match &mut self.rows {
            Rows::Ndjson { input, line, text } => loop {
                *line += 1;
                let at = |error: io::Error| format!("line {line}: {error}");
                text.clear();
                let limit = MAX_LINE as u64 + 1;
                if input.take(limit).read_until(b'\n', text).map_err(at)? == 0 {
                    return Ok(None);
                }
                if text.len() > MAX_LINE && !text.ends_with(b"\n") {
                    skip_line(input).map_err(at)?;
                    return Ok(Some((*line, Err(too_long()))));
                }
                let text = text.trim_ascii();
                if !text.is_empty() {
                    return Ok(Some((*line, PetRow::from_json(text, self.ids))));
                }
            },
            Rows::Csv {
                input,
                columns,
                record,
                taken,
            } => {
                taken.store(0, Ordering::Relaxed);
                let line = input.position().line();
                let read = input.read_byte_record(record);
                if !read.map_err(|error| format!("line {line}: {}", csv_error(error)))? {
                    return Ok(None);
                }
                // Empty lines before the record do not count as part of it.
                let line = record.position().map_or(line, |place| place.line());
                let row = match record.as_slice().len() > MAX_LINE {
                    true => Err(too_long()),
                    false => PetRow::from_record(|place| record.get(place), columns, self.ids),
                };
                Ok(Some((line, row)))
            }
        }
    }
}

fn too_long() -> String {
    format!("more than {MAX_LINE} bytes")
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let some = input.fill_buf()?;
        let end = some.iter().position(|byte| *byte == b'\n');
        let length = some.len();
        input.consume(end.map_or(length, |end| end + 1));
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

fn csv_rows(input: Box<dyn BufRead + Send>, ids: PetIds) -> Result<Rows, String> {
    let taken = Arc::new(AtomicUsize::new(0));
    let limited = Limited {
        input,
        taken: Arc::clone(&taken),
    };
    let mut input = csv::ReaderBuilder::new()
        // The number of fields is checked for each record, which may be bad alone.
        .flexible(true)
        .has_headers(false)
        .buffer_capacity(BUFFER)
        .from_reader(limited);
    let mut record = ByteRecord::new();
    let header = input.read_byte_record(&mut record);
    header.map_err(|error| format!("line 1: {}", csv_error(error)))?;
    let columns = CsvColumns::find(record.iter(), ids).map_err(|error| error.to_string())?;
    Ok(Rows::Csv {
        input,
        columns,
        record,
        taken,
    })
}

fn csv_error(error: csv::Error) -> String {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.to_string(),
        other => csv_kind(&other),
    }
}

fn csv_kind(kind: &csv::ErrorKind) -> String {
    format!("not valid CSV: {kind:?}")
}

/// The content of a file, whose beginning shows whether it is compressed as its name says.
fn decompressed(
    mut input: impl BufRead + Send + 'static,
    compression: Compression,
) -> Result<Box<dyn BufRead + Send>, String> {
    let begins = input.fill_buf().map_err(|error| error.to_string())?;
    let is = |compression: Compression| {
        let signature = compression.signature();
        signature.is_some_and(|(_, _, bytes)| begins.starts_with(bytes))
    };
    let actual = [Compression::Gzip, Compression::Zstd]
        .into_iter()
        .find(|it| is(*it));
    match (
        compression.signature(),
        actual.and_then(Compression::signature),
    ) {
        (Some((name, ..)), _) if actual != Some(compression) => {
            return Err(format!(
                "it is not compressed with {name}, as its name says"
            ));
        }
        (None, Some((name, ending, _))) => {
            return Err(format!(
                "it is compressed with {name}: its name must end in .{ending}"
            ));
        }
        _ => {}
    }
    Ok(match compression {
        Compression::None => Box::new(input),
        Compression::Gzip => buffered(MultiGzDecoder::new(input)),
        Compression::Zstd => buffered(ZstdReader::new(input)),
    })
}

fn buffered(input: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER, Decompressed(input)))
}

/// A decompressor whose errors say that they are its.
struct Decompressed<R>(R);

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer);
        read.map_err(|error| io::Error::other(format!("cannot be decompressed: {error}")))
    }
}

/// Counts the bytes of a file as they are read.
struct Counted<R> {
    input: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Ends a record that is too long, such as one with a quote that is never closed: the parser would keep all of it.
struct Limited {
    input: Box<dyn BufRead + Send>,
    /// The bytes read for the current record, and those in the buffer of the parser.
    taken: Arc<AtomicUsize>,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken.load(Ordering::Relaxed) > MAX_LINE + BUFFER {
            return Err(io::Error::other(format!(
                "{}: is a quote not closed?",
                too_long()
            )));
        }
        let read = self.input.read(buffer)?;
        self.taken.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }
}
