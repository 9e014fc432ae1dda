//! The listening sockets: those that a service manager has passed, or our own.

use std::net::SocketAddr;

use anyhow::{Context, anyhow};

use crate::config::{Config, check_admin_address};
use crate::http::{Listener, listen, listen_for_workers, raise_open_file_limit};
use crate::systemd::PassedSockets;

/// Files that are open besides connections: data, the log, connections to the admin listener, and those that are being rejected.
const OTHER_FILES: u64 = 256;

/// Files that each worker opens besides connections: its socket, its runtime, and its connections to the database and to Redis.
const FILES_PER_WORKER: u64 = 16;

pub(super) struct Listeners {
    /// One for each worker.
    pub(super) api: Vec<Listener>,
    pub(super) admin: Listener,
}

impl Listeners {
    pub(super) fn open(config: &Config, passed: PassedSockets) -> anyhow::Result<Self> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let failure =
            |option, address| format!("{option} {address}: cannot listen on this address");
        let unusable = "cannot use the socket that the service manager passed";
        let api = match passed.api {
            Some(socket) => Listener::passed(socket)
                .and_then(|listener| listener.split_for_workers(workers))
                .context(unusable)?,
            None => listen_for_workers(config.listen, workers)
                .with_context(|| failure("--listen", config.listen))?,
        };
        let admin = match passed.admin {
            Some(socket) => {
                let listener = Listener::passed(socket).context(unusable)?;
                check_admin_address(listener.local_addr()?, config.admin_token.as_ref())
                    .map_err(|problem| anyhow!("the socket named admin, {problem}"))?;
                listener
            }
            None => listen(config.admin_listen)
                .with_context(|| failure("--admin-listen", config.admin_listen))?,
        };
        Ok(Self { api, admin })
    }

    pub(super) fn addresses(&self) -> anyhow::Result<(SocketAddr, SocketAddr)> {
        let api = self.api.first().context("no socket")?;
        Ok((api.local_addr()?, self.admin.local_addr()?))
    }

    /// Raises the open-file limit, if necessary. Returns the number of connections that the API accepts: as many as configured,
    /// unless the limit cannot be raised far enough.
    pub(super) fn limit_connections(&self, config: &Config) -> usize {
        let wanted = config.max_connections;
        let other_files = OTHER_FILES + FILES_PER_WORKER * self.api.len() as u64;
        let connections = raise_open_file_limit(wanted, other_files);
        if connections < wanted {
            tracing::warn!(
                connections,
                wanted,
                "the open-file limit allows fewer connections than --max-connections"
            );
        }
        connections
    }
}
