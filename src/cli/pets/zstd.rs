//! Zstandard as a stream. A file is written as a sequence of frames, which the format allows; each frame is compressed as a whole.

use std::error::Error;
use std::io::{self, BufRead, ErrorKind, Read, Write};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// The size of a frame before compression: larger frames compress hardly any better.
const FRAME_BYTES: usize = 1024 * 1024;

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
                    if io::copy(&mut frame, &mut io::sink())? < length.into() {
                        return Err(io::Error::other("unexpected end of file"));
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(false)
    }

    fn verify_checksum(&self) -> io::Result<()> {
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
                0 if !buffer.is_empty() => self.verify_checksum()?,
                read => return Ok(read),
            }
            self.in_frame = false;
        }
    }
}

/// The error in words for an operator: the crate's messages are for its developers.
fn failed(error: FrameDecoderError) -> io::Error {
    io::Error::other(match &error {
        FrameDecoderError::WindowSizeTooBig { max, .. } => {
            let megabytes = max / 1_000_000;
            format!(
                "it needs more than {megabytes} MB of memory: compress it without --long or --ultra"
            )
        }
        FrameDecoderError::DictNotProvided { .. } => {
            "it needs a dictionary: compress it without one".into()
        }
        _ => match cause(&error) {
            Some(cause) if cause.kind() != ErrorKind::UnexpectedEof => cause.to_string(),
            Some(_) => "unexpected end of file".into(),
            None => "its content is damaged".into(),
        },
    })
}

/// The I/O error that caused it, if any.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    error
        .downcast_ref()
        .or_else(|| error.source().and_then(cause))
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
            content: Vec::with_capacity(FRAME_BYTES),
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
        let length = bytes.len().min(FRAME_BYTES - self.content.len());
        self.content.extend_from_slice(&bytes[..length]);
        if self.content.len() == FRAME_BYTES {
            self.write_frame()?;
        }
        Ok(length)
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
        for size in [
            0,
            1,
            FRAME_BYTES - 1,
            FRAME_BYTES,
            FRAME_BYTES + 1,
            3 * FRAME_BYTES + 77,
        ] {
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
    fn frames_without_content_are_skipped_wherever_they_are() {
        let mut writer = ZstdWriter::new(Vec::new());
        writer.write_all(b"content").unwrap();
        let frame = writer.finish().unwrap();
        let skipped = [0x5f, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let file = [&skipped[..], &frame, &skipped, &frame, &skipped].concat();
        let mut read = Vec::new();
        ZstdReader::new(&file[..]).read_to_end(&mut read).unwrap();
        assert_eq!(read, b"contentcontent");
        let cut_off = ZstdReader::new(&file[..file.len() - 1]).read_to_end(&mut read);
        assert_eq!(cut_off.unwrap_err().to_string(), "unexpected end of file");
    }

    #[test]
    fn a_file_that_is_cut_off_or_changed_is_an_error() {
        let mut writer = ZstdWriter::new(Vec::new());
        let content: Vec<u8> = (0..300_000_u32).map(|at| (at * 7 / 5) as u8).collect();
        writer.write_all(&content).unwrap();
        let file = writer.finish().unwrap();
        let problem = |file: &[u8]| {
            let read = ZstdReader::new(file).read_to_end(&mut Vec::new());
            read.unwrap_err().to_string()
        };
        for length in [1, 5, file.len() / 2, file.len() - 1] {
            assert_eq!(problem(&file[..length]), "unexpected end of file");
        }
        let mut changed = file.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(problem(&changed), "its checksum is wrong");
        let reserved_block = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 1, 7, 0, 0];
        for damaged in [&b"no zstd at all"[..], &reserved_block] {
            assert_eq!(problem(damaged), "its content is damaged");
        }
        let window_of_2_gib = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 0, 0, 0];
        assert!(problem(&window_of_2_gib).contains("without --long"));
    }
}
