//! The stream under a connection: a socket, or TLS over one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use tokio_rustls::rustls::{ClientConnection, StreamOwned};

/// A socket, plain or encrypted.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Closes the connection for writing.
    pub(crate) fn end(&mut self) {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
                stream.get_mut()
            }
        };
        let _ = socket.shutdown(Shutdown::Write);
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
