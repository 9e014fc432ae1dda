//! The rows of a file, one in each line, in constant memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::{Compression, PetFile, RowFormat};
use super::gzip::GzipReader;
use super::zstd::ZstdReader;
use crate::api::operation::MAX_BODY_BYTES;
use crate::pet::{CsvColumns, IdSource, PetRow};

const BUFFER_BYTES: usize = 64 * 1024;

/// What some programs write at the beginning of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line with its number: an animal, or what is wrong with it.
pub(super) type NumberedRow = (u64, Result<PetRow, String>);

/// A file with animals. Errors are one line, without the name of the file.
pub(super) struct RowReader {
    lines: Lines,
    /// None for NDJSON.
    columns: Option<CsvColumns>,
    ids: IdSource,
}

impl RowReader {
    /// Opens a file, and reads its header line. `bytes_read` counts its bytes as they are read.
    pub(super) fn open(
        file: &PetFile,
        ids: IdSource,
        bytes_read: Arc<AtomicU64>,
    ) -> Result<Self, String> {
        let input: Box<dyn Read + Send> = match &file.path {
            Some(path) => Box::new(File::open(path).map_err(|error| error.to_string())?),
            None => Box::new(io::stdin()),
        };
        let input = BufReader::with_capacity(BUFFER_BYTES, Counted { input, bytes_read });
        let mut lines = Lines {
            input: decompressed(input, file)?,
            number: 0,
            text: Vec::new(),
            has_rest: false,
        };
        let columns = match file.format {
            RowFormat::Ndjson => None,
            RowFormat::Csv => {
                let (number, header) = lines.next()?.unwrap_or((1, Ok(b"")));
                let header = header.map_err(|problem| format!("line {number}: {problem}"))?;
                Some(CsvColumns::find(header, ids)?)
            }
        };
        Ok(Self {
            lines,
            columns,
            ids,
        })
    }

    /// The next row. After an error nothing more can be read.
    pub(super) fn next(&mut self) -> Result<Option<NumberedRow>, String> {
        let Some((number, line)) = self.lines.next()? else {
            return Ok(None);
        };
        let row = line.and_then(|line| match &self.columns {
            None => PetRow::from_json(line.trim_ascii(), self.ids),
            Some(columns) => PetRow::from_csv(line, columns, self.ids),
        });
        Ok(Some((number, row)))
    }
}

struct Lines {
    input: Box<dyn BufRead + Send>,
    /// The number of the last line.
    number: u64,
    text: Vec<u8>,
    /// Whether the rest of the last line, which is too long, must be skipped. Not before the next line is needed: it may be endless.
    has_rest: bool,
}

impl Lines {
    /// The next line that is not blank, and its number.
    #[expect(clippy::type_complexity, reason = "for this one use")]
    fn next(&mut self) -> Result<Option<(u64, Result<&[u8], String>)>, String> {
        loop {
            let at = |number, error: io::Error| format!("line {number}: {error}");
            if self.has_rest {
                let skipped = self.input.skip_until(b'\n');
                skipped.map_err(|error| at(self.number, error))?;
                self.has_rest = false;
            }
            self.number += 1;
            let number = self.number;
            self.text.clear();
            let mut limited = (&mut self.input).take((MAX_BODY_BYTES + "\r\n".len()) as u64);
            let read = limited.read_until(b'\n', &mut self.text);
            if read.map_err(|error| at(number, error))? == 0 {
                return Ok(None);
            }
            if without_end(&self.text).len() > MAX_BODY_BYTES {
                self.has_rest = !self.text.ends_with(b"\n");
                let problem = format!("more than {MAX_BODY_BYTES} bytes");
                return Ok(Some((number, Err(problem))));
            }
            if number == 1 && self.text.starts_with(BYTE_ORDER_MARK) {
                self.text.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.text.trim_ascii().is_empty() {
                break;
            }
        }
        let line = without_end(&self.text);
        Ok(Some((self.number, Ok(line))))
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The content of a file, whose beginning shows whether it is compressed as its name says.
fn decompressed(
    mut input: impl BufRead + Send + 'static,
    file: &PetFile,
) -> Result<Box<dyn BufRead + Send>, String> {
    // A pipe may have less at first.
    let mut start = Vec::new();
    let read = (&mut input).take(4).read_to_end(&mut start);
    read.map_err(|error| error.to_string())?;
    let actual = Compression::of(&start);
    match (file.compression.names(), actual.names()) {
        _ if file.compression == actual => {}
        (Some((name, _)), _) => {
            return Err(format!(
                "it is not compressed with {name}, although its name says so"
            ));
        }
        (None, Some((name, extension))) => {
            let change = match file.path {
                Some(_) => format!("its name must end in .{extension}"),
                None => {
                    format!("decompress it first, or use a file name that ends in .{extension}")
                }
            };
            return Err(format!("it is compressed with {name}: {change}"));
        }
        (None, None) => {}
    }
    let input = Cursor::new(start).chain(input);
    Ok(match file.compression {
        Compression::None => Box::new(input),
        Compression::Gzip => buffered(GzipReader::new(input)),
        Compression::Zstd => buffered(ZstdReader::new(input)),
    })
}

fn buffered(input: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, Decompressed(input)))
}

/// A decompressor whose errors say what failed.
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
    bytes_read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
