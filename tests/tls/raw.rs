//! A connection of HTTP/2 frame by frame, for clients that do what no library would.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use harness::{Certificate, Client};
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// The setting of the window that a stream begins with.
pub(crate) const INITIAL_WINDOW: u16 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The error code of a GOAWAY or a RST_STREAM.
    pub(crate) fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }
}

/// A connection.
pub(crate) struct Raw {
    stream: StreamOwned<ClientConnection, TcpStream>,
    buffer: Vec<u8>,
    key: String,
}

impl Raw {
    /// Connects, and sends the preface with these settings.
    pub(crate) fn connect(
        client: &Client,
        certificate: &Certificate,
        settings: &[(u16, u32)],
    ) -> Self {
        let mut raw = Self::silent(client.address, certificate);
        raw.key = client.key.clone().unwrap_or_default();
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat();
        raw.send(&bytes).expect("a preface");
        raw
    }

    /// Connects, and sends nothing.
    pub(crate) fn silent(address: SocketAddr, certificate: &Certificate) -> Self {
        let tls = certificate.http2_client();
        Self {
            stream: tls.handshake(address).expect("a handshake"),
            buffer: Vec::new(),
            key: String::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    pub(crate) fn send_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send(&frame(kind, flags, stream, payload))
            .expect("sent");
    }

    /// Sends a GET with the key.
    pub(crate) fn get(&mut self, stream: u32, target: &str) {
        let head = self.head("GET", target, &[]);
        self.send_frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
    }

    /// Sends the head of a POST, with the key. Its body is to follow.
    pub(crate) fn post(&mut self, stream: u32, more: &[(&str, &str)]) {
        let head = self.head(
            "POST",
            "/v1/pets",
            &[&[("content-type", "application/json")], more].concat(),
        );
        self.send_frame(HEADERS, END_HEADERS, stream, &head);
    }

    /// A head with the key, encoded.
    pub(crate) fn head(&self, method: &str, target: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let key = format!("Bearer {}", self.key);
        let fields = [
            (":method", method),
            (":scheme", "https"),
            (":path", target),
            (":authority", "a.example"),
            ("authorization", &key),
        ];
        // It begins by reducing the dynamic table, as a client must that has acknowledged the settings of the server.
        [&[0x20], &encode(&[&fields, more].concat())[..]].concat()
    }

    /// The next frame; none at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((head, rest)) = self.buffer.split_first_chunk::<9>() {
                let length =
                    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                if rest.len() >= length {
                    let frame = Frame {
                        kind: head[3],
                        flags: head[4],
                        stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
                        payload: rest[..length].to_vec(),
                    };
                    self.buffer.drain(..9 + length);
                    return Some(frame);
                }
            }
            let mut more = [0; 16_384];
            match self.stream.read(&mut more) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.buffer.extend_from_slice(&more[..read]),
            }
        }
    }

    /// The next frame of this kind; none if the connection ends before.
    pub(crate) fn next_of(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.next()?;
            if frame.kind == kind && !(kind == SETTINGS && frame.has(ACK)) {
                return Some(frame);
            }
        }
    }

    /// Reads the response on this stream: its status, and its body. Frames of other streams are dropped.
    #[track_caller]
    pub(crate) fn response(&mut self, stream: u32) -> (u16, Vec<u8>) {
        let (mut status, mut body) = (0, Vec::new());
        loop {
            let frame = self.next().expect("a response");
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                HEADERS => status = status_of(&frame.payload),
                DATA => body.extend_from_slice(&frame.payload),
                RST_STREAM => panic!("reset: {frame:?}"),
                _ => continue,
            }
            if frame.has(END_STREAM) {
                return (status, body);
            }
        }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    /// How long a write may take.
    pub(crate) fn set_write_timeout(&self, timeout: Duration) {
        self.stream
            .sock
            .set_write_timeout(Some(timeout))
            .expect("a timeout");
    }

    /// How many bytes the system receives before they are read.
    pub(crate) fn set_receive_buffer(&self, size: usize) {
        socket2::SockRef::from(&self.stream.sock)
            .set_recv_buffer_size(size)
            .expect("a small buffer");
    }

    /// How long a read may take.
    pub(crate) fn set_read_timeout(&self, timeout: Duration) {
        self.stream
            .sock
            .set_read_timeout(Some(timeout))
            .expect("a timeout");
    }
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Fields for HPACK: literals that are not indexed, without Huffman coding.
pub(crate) fn encode(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let length = text.len();
            if length < 127 {
                block.push(length as u8);
            } else {
                block.push(127);
                let mut rest = length - 127;
                while rest >= 128 {
                    block.push((rest % 128) as u8 | 128);
                    rest /= 128;
                }
                block.push(rest as u8);
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The status is the first field of a block: an entry of the static table, or a literal with an indexed name.
pub(crate) fn status_of(block: &[u8]) -> u16 {
    match block[0] {
        // This decoder has no dynamic table: the first response of a connection is literal.
        index @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(index - 0x88)],
        0x20..=0x3f => status_of(&block[1..]),
        0x40..=0x7f | 0x00..=0x1f => {
            let (length, text) = (block[1], &block[2..]);
            let text = match length & 0x80 {
                0 => text[..usize::from(length)].to_vec(),
                _ => digits(&text[..usize::from(length & 0x7f)]),
            };
            String::from_utf8(text)
                .expect("text")
                .parse()
                .expect("a status")
        }
        // An entry of the dynamic table: not one of the first response.
        _ => 0,
    }
}

/// Digits in Huffman coding: 0 to 2 have five bits, the others six.
fn digits(bytes: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let number = |bits: &[u8]| bits.iter().fold(0, |number, bit| number << 1 | bit);
    let (mut at, mut text) = (0, Vec::new());
    while at + 5 <= bits.len() {
        let five = number(&bits[at..at + 5]);
        if five < 3 {
            text.push(b'0' + five);
            at += 5;
        } else if at + 6 <= bits.len() && (25..=31).contains(&number(&bits[at..at + 6])) {
            text.push(b'3' + number(&bits[at..at + 6]) - 25);
            at += 6;
        } else {
            break;
        }
    }
    text
}
