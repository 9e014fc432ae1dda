//! Socket activation: listening sockets that the service manager has opened, and keeps open when this process ends.

use std::net::TcpListener;

use anyhow::{Context, bail};
use listenfd::ListenFd;
use socket2::SockRef;

/// The name (`FileDescriptorName=`) of the socket of the admin listener.
const ADMIN_SOCKET: &str = "admin";

#[derive(Debug, Default)]
pub struct PassedSockets {
    pub api: Option<TcpListener>,
    pub admin: Option<TcpListener>,
}

impl PassedSockets {
    pub(super) fn from_env() -> anyhow::Result<Self> {
        // Before `ListenFd`, which removes the variables that it reads.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut sockets = Self::default();
        for index in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            let problem = "the service manager passed a socket that is not a listening TCP socket";
            let socket = passed.take_tcp_listener(index).context(problem)?;
            let socket = socket.context(problem)?;
            if !SockRef::from(&socket).is_listener().unwrap_or(false) {
                bail!(problem);
            }
            let slot = match name {
                ADMIN_SOCKET => &mut sockets.admin,
                _ => &mut sockets.api,
            };
            if slot.replace(socket).is_some() {
                bail!(
                    "the service manager passed two sockets for one listener: use one ListenStream=, such as [::]:8080 for IPv6 and IPv4, and FileDescriptorName=admin for the admin listener"
                );
            }
        }
        Ok(sockets)
    }
}
