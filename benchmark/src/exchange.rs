//! Single requests, to check that a server is up and to get its response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// Sends these bytes and returns everything until the server closes the connection.
fn exchange(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>> {
    let mut tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(Duration::from_secs(10)))?;
    tcp.write_all(request)?;
    let mut response = Vec::new();
    tcp.read_to_end(&mut response)?;
    Ok(response)
}

/// Gets a path and returns the status.
pub(crate) fn status_of(address: SocketAddr, path: &str) -> Result<u16> {
    Response::to_get(address, path, "").map(|response| response.status)
}

/// A parsed response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The headers, without those that each server writes itself.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Sends a GET with these header lines and returns the response.
    pub(crate) fn to_get(address: SocketAddr, path: &str, headers: &str) -> Result<Self> {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n");
        Self::parse(&exchange(address, request.as_bytes())?)
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let end =
            memchr::memmem::find(bytes, b"\r\n\r\n").context("the response head is incomplete")?;
        let mut lines = std::str::from_utf8(&bytes[..end])?.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        Ok(Self {
            status: status.context("the response has no status")?.parse()?,
            headers: lines
                .filter_map(|line| line.split_once(": "))
                .filter(|(name, _)| {
                    !["date", "content-length", "connection"]
                        .contains(&name.to_ascii_lowercase().as_str())
                })
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: bytes[end + 4..].to_vec(),
        })
    }

    /// The response as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {}\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}
