//! gzip as a stream: all members of a file, and the zeros with which tapes and archives pad it.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// Decompresses all members.
pub(super) struct GzipReader<R>(Option<GzDecoder<R>>);

impl<R: BufRead> GzipReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self(Some(GzDecoder::new(input)))
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if let Some(mut input) = self.0.take().map(GzDecoder::into_inner)
                && skip_zeros(&mut input)?
            {
                self.0 = Some(GzDecoder::new(input));
            }
        }
        Ok(0)
    }
}

/// Returns whether anything follows.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let some = input.fill_buf()?;
        if some.is_empty() {
            return Ok(false);
        }
        let zeros = some.iter().take_while(|byte| **byte == 0).count();
        if zeros == 0 {
            return Ok(true);
        }
        input.consume(zeros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut file = GzEncoder::new(Vec::new(), Default::default());
        file.write_all(content).unwrap();
        file.finish().unwrap()
    }

    #[test]
    fn members_are_read_to_the_last_one_and_padding_is_not_content() {
        let content = |file: &[u8]| {
            let mut content = Vec::new();
            let read = GzipReader::new(file).read_to_end(&mut content);
            read.map(|_| content).map_err(|error| error.to_string())
        };
        let (one, two) = (compressed(b"one "), compressed(b"two"));
        let both = [&one[..], &two].concat();
        assert_eq!(content(&both).unwrap(), b"one two");
        let padded = [&both[..], &[0; 100_000]].concat();
        assert_eq!(content(&padded).unwrap(), b"one two");
        for (rest, problem) in [
            (&b"no member, no zeros"[..], "invalid gzip header"),
            (&two[..two.len() - 1], "unexpected end of file"),
            (b"\0\0no member at all", "invalid gzip header"),
        ] {
            let error = content(&[&one[..], rest].concat()).unwrap_err();
            assert_eq!(error, problem);
        }
    }
}
