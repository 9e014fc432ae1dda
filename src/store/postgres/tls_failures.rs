//! Why TLS handshakes fail, by server and address. Each reason is logged once, although all requests fail with it.

use std::collections::HashMap;
use std::net::IpAddr;

use tokio_postgres::Config;

use crate::store::contract::PostgresUrl;

#[derive(Debug, Default)]
pub(super) struct TlsFailures(HashMap<String, String>);

impl TlsFailures {
    pub(super) fn failed(&mut self, server: &Config, cause: &str) {
        let before = self.0.insert(address(server), cause.to_owned());
        if before.is_none_or(|before| before != cause) {
            let host = PostgresUrl::host(server);
            let address = server.get_hostaddrs().first().map(IpAddr::to_string);
            match address.filter(|address| *address != host) {
                Some(address) => tracing::warn!("PostgreSQL at {host} ({address}): {cause}"),
                None => tracing::warn!("PostgreSQL at {host}: {cause}"),
            }
        }
    }

    pub(super) fn succeeded(&mut self, server: &Config) {
        self.0.remove(&address(server));
    }
}

/// A server, and which of its addresses.
fn address(server: &Config) -> String {
    format!("{} {:?}", PostgresUrl::host(server), server.get_hostaddrs())
}
