//! Listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Files that are open besides connections: data, sockets, the log, and connections that are being refused.
const OTHER_FILES: u64 = 256;

/// One socket for each worker, all on the same address: the kernel spreads connections over them.
pub(super) fn api(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    // Sockets that share an address would share it with another process's too. A first one that does not share finds
    // out whether somebody is there.
    drop(socket(address, false)?);
    let first = socket(address, true)?;
    let address = first.local_addr()?;
    let rest = (1..workers).map(|_| socket(address, true));
    std::iter::once(Ok(first)).chain(rest).collect()
}

/// The one socket of the admin listener.
pub(super) fn admin(address: SocketAddr) -> io::Result<TcpListener> {
    socket(address, false)
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// How many connections the system lets us have, of those that are wanted. Asks for as many open files as they need.
pub(super) fn connections(wanted: usize) -> usize {
    let files = wanted as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= files) {
        return wanted;
    }
    let most = limit.maximum.map_or(files, |maximum| maximum.min(files));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        },
    );
    let granted = if raised.is_ok() {
        most
    } else {
        limit.current.unwrap_or(most)
    };
    let connections = usize::try_from(granted.saturating_sub(OTHER_FILES))
        .unwrap_or(wanted)
        .clamp(1, wanted);
    if connections < wanted {
        tracing::warn!(
            connections,
            wanted,
            "the limit of open files allows fewer connections than --max-connections"
        );
    }
    connections
}
