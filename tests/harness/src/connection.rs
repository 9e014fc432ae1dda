//! A connection that reads and writes HTTP/1.1, plain or with TLS.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Response;
use crate::stream::Stream;

/// A socket and what has been read from it.
#[derive(Debug)]
pub struct Connection(BufReader<Stream>);

impl Connection {
    /// Connects.
    pub fn new(address: SocketAddr) -> Self {
        TcpStream::connect(address).expect("a connection").into()
    }

    /// Sends raw bytes. Ignores errors: whether the server still reads shows in its response.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// Sends bytes, and returns whether the connection took them.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.get_mut().write_all(bytes).is_ok()
    }

    /// Closes the connection for writing.
    pub fn end(&mut self) {
        self.0.get_mut().end();
    }

    /// Reads one response.
    pub fn response(&mut self) -> Response {
        self.response_to("(raw)")
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Whether the server has closed the connection, without a further byte.
    pub fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            // Neither data nor the end arrived: it is open.
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    pub(crate) fn response_to(&mut self, request_line: &str) -> Result<Response, String> {
        let mut line = || {
            let mut line = String::new();
            match self.0.read_line(&mut line) {
                Ok(_) if line.ends_with('\n') => Ok(line.trim_end().to_owned()),
                Ok(_) => Err(format!("{request_line}: the response is cut off: {line:?}")),
                Err(error) => Err(format!("{request_line}: no response: {error}")),
            }
        };
        let first = line()?;
        let status = first
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("{request_line}: not a response: {first:?}"))?;
        let mut headers = Vec::new();
        loop {
            let line = line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response {
            status,
            headers,
            body: Vec::new(),
            request_line: request_line.to_owned(),
        };
        let has_body =
            !request_line.starts_with("HEAD ") && status >= 200 && status != 204 && status != 304;
        if let Some(length) = response.header("content-length").filter(|_| has_body) {
            response.body = vec![0; length.parse().expect("a length")];
            self.0
                .read_exact(&mut response.body)
                .map_err(|error| format!("{request_line}: the body is cut off: {error}"))?;
        }
        Ok(response)
    }
}

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Stream::Plain(stream).into()
    }
}

impl From<Stream> for Connection {
    fn from(stream: Stream) -> Self {
        Self(BufReader::new(stream))
    }
}
