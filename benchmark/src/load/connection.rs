//! One connection of the load generator, with enough HTTP to detect the end of a response.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use mio::net::TcpStream;

/// Larger than every response, so that a response is read in one call.
const BUFFER: usize = 64 * 1024;

/// One connection. It carries one request at a time.
pub(super) struct Connection {
    tcp: TcpStream,
    buffer: Box<[u8]>,
    filled: usize,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> Result<Self> {
        let tcp = std::net::TcpStream::connect(address)?;
        tcp.set_nodelay(true)?;
        tcp.set_nonblocking(true)?;
        Ok(Self {
            tcp: TcpStream::from_std(tcp),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            filled: 0,
        })
    }

    pub(super) fn tcp(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// Sends a request.
    pub(super) fn send(&mut self, request: &[u8]) -> Result<()> {
        // A request is small and no other is in flight, so the kernel accepts all of it.
        let sent = self.tcp.write(request).context("cannot send")?;
        ensure!(sent == request.len(), "a request was sent only in part");
        Ok(())
    }

    /// Reads available data. Returns the status when the response is complete.
    pub(super) fn receive(&mut self) -> Result<Option<u16>> {
        loop {
            let read = match self.tcp.read(&mut self.buffer[self.filled..]) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("cannot receive"),
            };
            self.filled += read;
            if let Some(status) = complete(&self.buffer[..self.filled])? {
                self.filled = 0;
                return Ok(Some(status));
            }
        }
    }
}

/// The status of a response, if these bytes are complete.
pub(super) fn complete(bytes: &[u8]) -> Result<Option<u16>> {
    let mut line = 0;
    let mut length = None;
    // Line by line: a head has a few hundred bytes, and the first byte rules out most lines.
    while let Some(end) = memchr::memchr(b'\n', &bytes[line..]) {
        let text = &bytes[line..line + end];
        line += end + 1;
        if text.len() <= 1 {
            let status = bytes.get(9..12).and_then(number).context("no status")?;
            let body = &bytes[line..];
            let whole = match length {
                Some(length) => body.len() == length,
                // Without a length the body is chunked, and the last chunk is empty.
                None => body.ends_with(b"0\r\n\r\n"),
            };
            return Ok(whole.then_some(status as u16));
        }
        const NAME: &[u8] = b"content-length:";
        if text[0] | 0x20 == b'c'
            && text.len() > NAME.len()
            && text[..NAME.len()].eq_ignore_ascii_case(NAME)
        {
            length = number(text[NAME.len()..].trim_ascii());
        }
    }
    ensure!(bytes.len() < BUFFER, "a response is too long");
    Ok(None)
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_complete_when_its_body_is() {
        let response = b"HTTP/1.1 201 Created\r\ncache-control: no\r\nContent-Length: 3\r\n\r\nabc";
        for end in 0..response.len() {
            assert_eq!(complete(&response[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(complete(response).unwrap(), Some(201));
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        assert_eq!(complete(&chunked[..chunked.len() - 5]).unwrap(), None);
        assert_eq!(complete(chunked).unwrap(), Some(200));
    }
}
