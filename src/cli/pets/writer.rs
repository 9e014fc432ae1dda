//! A file with animals, as it is written.

use std::io::{self, BufWriter, Write};

use flate2::write::GzEncoder;

use super::format::{Compression, PetFile, RowFormat};
use super::zstd::ZstdWriter;
use crate::pet::{CsvColumns, Pet};

const BUFFER_BYTES: usize = 64 * 1024;

/// Writes animals in a format.
pub(super) enum RowWriter<W: Write> {
    Ndjson(BufWriter<Compressor<W>>, Vec<u8>),
    Csv(Box<csv::Writer<Compressor<W>>>),
}

impl<W: Write> RowWriter<W> {
    pub(super) fn new(output: W, file: &PetFile) -> io::Result<Self> {
        let output = match file.compression {
            Compression::None => Compressor::None(output),
            Compression::Gzip => Compressor::Gzip(GzEncoder::new(output, Default::default())),
            Compression::Zstd => Compressor::Zstd(ZstdWriter::new(output)),
        };
        match file.format {
            RowFormat::Ndjson => {
                let output = BufWriter::with_capacity(BUFFER_BYTES, output);
                Ok(Self::Ndjson(output, Vec::new()))
            }
            RowFormat::Csv => {
                let mut builder = csv::WriterBuilder::new();
                let mut output = builder.buffer_capacity(BUFFER_BYTES).from_writer(output);
                output.write_record(CsvColumns::NAMES).map_err(io_error)?;
                Ok(Self::Csv(Box::new(output)))
            }
        }
    }

    pub(super) fn write(&mut self, pet: &Pet) -> io::Result<()> {
        match self {
            Self::Ndjson(output, line) => {
                line.clear();
                pet.write_json(line);
                line.push(b'\n');
                output.write_all(line)
            }
            Self::Csv(output) => {
                let (mut id, mut category) = (itoa::Buffer::new(), itoa::Buffer::new());
                let (id, category) = (id.format(pet.id.0), category.format(pet.category_id));
                let record = [id, &pet.name, category, pet.status.as_str()];
                output.write_record(record).map_err(io_error)
            }
        }
    }

    /// Writes what is buffered, and the end of a compressed file.
    pub(super) fn finish(self) -> io::Result<()> {
        let output = match self {
            Self::Ndjson(output, _) => output.into_inner().map_err(|error| error.into_error())?,
            Self::Csv(output) => output.into_inner().map_err(|error| error.into_error())?,
        };
        match output {
            Compressor::None(output) => Ok(output),
            Compressor::Gzip(output) => output.finish(),
            Compressor::Zstd(output) => output.finish(),
        }?
        .flush()
    }
}

fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

pub(super) enum Compressor<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    Zstd(ZstdWriter<W>),
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::None(output) => output.write(bytes),
            Self::Gzip(output) => output.write(bytes),
            Self::Zstd(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::None(output) => output.flush(),
            Self::Gzip(output) => output.flush(),
            Self::Zstd(output) => output.flush(),
        }
    }
}
