//! Listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Files that are open besides connections: data, sockets, the log.
const OTHER_FILES: u64 = 128;

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

/// Asks for as many open files as connections are allowed. What the system does not grant is told.
pub(super) fn raise_file_limit(connections: usize) {
    let wanted = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if enough(limit.current) {
        return;
    }
    let granted = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(granted),
            maximum: limit.maximum,
        },
    );
    if raised.is_err() || granted < wanted {
        tracing::warn!(
            granted,
            wanted,
            "the limit of open files is lower than --max-connections needs"
        );
    }
}
