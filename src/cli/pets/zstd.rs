//! Zstandard as a stream. Written as a sequence of frames, which is what a file may consist of: each is compressed as a whole.

use std::io::{self, BufRead, Read, Write};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// The content of a frame: larger ones compress hardly better.
const FRAME: usize = 1024 * 1024;

/// Decompresses all frames.
pub(super) struct ZstdReader<R: BufRead> {
    input: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            decoder: FrameDecoder::new(),
            in_frame: false,
        }
    }

    /// Reads the header of the next frame with content. Returns whether there is one.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut frame = (&mut self.input).take(length.into());
                    io::copy(&mut frame, &mut io::sink())?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(false)
    }

    fn check_sum(&self) -> io::Result<()> {
        let expected = self.decoder.get_checksum_from_data();
        match expected.is_none() || expected == self.decoder.get_calculated_checksum() {
            true => Ok(()),
            false => Err(io::Error::other("its checksum is wrong")),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame && !self.begin_frame()? {
                return Ok(0);
            }
            self.in_frame = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.input, one);
                decoded.map_err(failed)?;
            }
            match self.decoder.read(buffer)? {
                0 if !buffer.is_empty() => self.check_sum()?,
                read => return Ok(read),
            }
            self.in_frame = false;
        }
    }
}

fn failed(error: FrameDecoderError) -> io::Error {
    io::Error::other(error.to_string())
}

/// Compresses what is written to it. What is left is written by [`ZstdWriter::finish`].
pub(super) struct ZstdWriter<W: Write> {
    output: W,
    content: Vec<u8>,
}

impl<W: Write> ZstdWriter<W> {
    pub(super) fn new(output: W) -> Self {
        Self {
            output,
            content: Vec::with_capacity(FRAME),
        }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_frame()?;
        Ok(self.output)
    }

    fn write_frame(&mut self) -> io::Result<()> {
        let frame = compress_to_vec(&self.content[..], CompressionLevel::Fastest);
        self.content.clear();
        self.output.write_all(&frame)
    }
}

impl<W: Write> Write for ZstdWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = bytes.len().min(FRAME - self.content.len());
        self.content.extend_from_slice(&bytes[..room]);
        if self.content.len() == FRAME {
            self.write_frame()?;
        }
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_is_decompressed_whatever_its_size() {
        for size in [0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME + 77] {
            let content: Vec<u8> = (0..size).map(|at| (at * at / 7) as u8).collect();
            let mut writer = ZstdWriter::new(Vec::new());
            writer.write_all(&content).unwrap();
            let file = writer.finish().unwrap();
            let mut read = Vec::new();
            ZstdReader::new(&file[..]).read_to_end(&mut read).unwrap();
            assert!(read == content, "{size}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_or_changed_is_an_error() {
        let mut writer = ZstdWriter::new(Vec::new());
        let content: Vec<u8> = (0..300_000_u32).map(|at| (at * 7 / 5) as u8).collect();
        writer.write_all(&content).unwrap();
        let file = writer.finish().unwrap();
        let read = |file: &[u8]| ZstdReader::new(file).read_to_end(&mut Vec::new());
        assert!(read(&file[..file.len() - 1]).is_err());
        assert!(read(&file[..file.len() / 2]).is_err());
        let mut changed = file.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(read(&changed).is_err());
        assert!(read(b"no zstd at all").is_err());
    }
}
