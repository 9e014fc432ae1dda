//! Listening sockets. The connections that they accept inherit their options.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

/// Unsent bytes that the kernel buffers for a connection. One large response would fill a larger buffer at once, and then a client
/// that reads slowly but steadily would seem to read nothing for minutes.
const MAX_UNSENT_BYTES: u32 = 16 * 1024;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

pub struct Listener {
    pub(super) socket: TcpListener,
    /// Whether the socket stays open when this server stops accepting, so that connections in its queue are not lost.
    pub(super) stays_open: bool,
}

impl Listener {
    /// Takes over a socket that another process keeps open.
    pub fn passed(socket: TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        set_options(&SockRef::from(&socket))?;
        let stays_open = true;
        Ok(Self { socket, stays_open })
    }

    /// One for each worker, all of the same socket: whichever accepts first gets the connection.
    pub fn split_for_workers(self, workers: usize) -> io::Result<Vec<Self>> {
        let rest = (1..workers)
            .map(|_| self.share())
            .collect::<io::Result<Vec<_>>>()?;
        Ok(std::iter::once(self).chain(rest).collect())
    }

    /// The same socket once more, to be closed while this one stays open, so that no connection in its queue is lost.
    pub fn share(&self) -> io::Result<Self> {
        let socket = self.socket.try_clone()?;
        let stays_open = true;
        Ok(Self { socket, stays_open })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Listens with one socket for each worker, all on the same address: the kernel distributes connections over them.
pub fn listen_for_workers(address: SocketAddr, workers: usize) -> io::Result<Vec<Listener>> {
    // Sockets that share an address would share it with those of another process, too. A first one that does not share finds out
    // whether another process listens there. It does not listen itself: its connections would be reset.
    drop(bind(address, false)?);
    let first = socket(address, true)?;
    let address = first.local_addr()?;
    let rest = (1..workers).map(|_| socket(address, true));
    std::iter::once(Ok(first)).chain(rest).collect()
}

pub fn listen(address: SocketAddr) -> io::Result<Listener> {
    socket(address, false)
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Listener> {
    let socket = bind(address, shared)?;
    socket.listen(BACKLOG)?;
    Ok(Listener {
        socket: socket.into(),
        stays_open: false,
    })
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    set_options(&socket)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn set_options(socket: &Socket) -> io::Result<()> {
    // A response is written in one piece: waiting to fill a packet would only delay it.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)
}

/// Drops new SYNs, while connections in the queue can still be accepted. A client whose SYN is dropped retries, and reaches the next
/// server, or none.
pub(super) fn drop_new_syns(listener: &tokio::net::TcpListener) {
    // The flags are byte 13 of a TCP header. A packet with SYN alone, the first of a connection, is dropped.
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let (syn, ack) = (0x02, 0x10);
    let filter = [
        SockFilter::new(LOAD_BYTE, 0, 0, 13),
        SockFilter::new(AND, 0, 0, syn | ack),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, syn),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ];
    if let Err(error) = SockRef::from(listener).attach_filter(&filter) {
        // A connection that is opened at the last moment may then be reset.
        tracing::debug!(%error, "cannot install the SYN filter");
    }
}
