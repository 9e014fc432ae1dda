//! What a client writes to and reads from: a socket, or TLS over one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use tokio_rustls::rustls::{ClientConnection, StreamOwned};

/// A socket, plain or encrypted.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// Closes our side: nothing more will be sent.
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

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
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
