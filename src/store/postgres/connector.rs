//! The creation of connections, and their timeouts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Connection, Socket};

use super::error::{PgError, PgResult};
use super::fault;
use super::tls::PgStream;
use super::tls_failures::TlsFailures;
use crate::blocking::Resolver;
use crate::fault::Fault;
use crate::mutex::lock;
use crate::staggered::first_success;
use crate::store::contract::PostgresUrl;
use crate::tls::ClientTls;

pub(super) const MAX_CONNECTIONS: usize = 16;

/// The timeout for connecting, unless the URL has a `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const DEFAULT_PORT: u16 = 5432;

static RESOLVER: Resolver = Resolver::new();

/// How long one server has before the next one is tried as well.
const STAGGER_DELAY: Duration = Duration::from_millis(750);

/// The maximum number of spare connections: those that were completed only after their request had timed out. Even one lets requests
/// succeed again, so few are kept.
const MAX_SPARES: usize = 4;

/// The limits that the server enforces, those of a request. It ends a statement before this process stops waiting, so that the
/// connection can be kept ([`statement_timeout`](super::timeout::statement_timeout)), and an idle transaction whose process was
/// suspended or cannot be reached.
pub(super) const SET_LIMITS: &str = "SET statement_timeout = 1500; \
                      SET lock_timeout = 1500; \
                      SET idle_in_transaction_session_timeout = 3000";

/// The limits while statements are prepared: one on a locked table must not keep a connection from being made.
pub(super) const PREPARE_LIMITS: &str = "SET statement_timeout = 1500; SET lock_timeout = 50";

/// Lets the server detect within half a minute that the client of an idle session is gone, with its machine or its network. Until then
/// the session keeps its locks, and counts as a connection; by default, that takes two hours. If a response is not acknowledged, the
/// limits of the system apply: a shorter one would also end the session of a process that was suspended.
const SET_KEEPALIVES: &str = "SET tcp_keepalives_idle = 10; \
                      SET tcp_keepalives_interval = 5; \
                      SET tcp_keepalives_count = 3";

/// Whatever the database is configured to do, now or later, a commit is on disk, and on a synchronous standby, before it is
/// acknowledged.
const SYNC_COMMITS: &str = "SELECT set_config('synchronous_commit', \
                          CASE WHEN value IN ('off', 'local') THEN 'on' ELSE value END, false) \
                      FROM (SELECT current_setting('synchronous_commit', true)) AS setting (value) \
                      WHERE value IS NOT NULL";

/// `tcp_user_timeout` is how long sent data may stay unacknowledged, or unread by the server, before the connection counts as lost.
fn with_defaults(server: &Config, tcp_user_timeout: Duration) -> Config {
    let mut server = server.clone();
    server.target_session_attrs(TargetSessionAttrs::ReadWrite);
    if server.get_application_name().is_none() {
        server.application_name("animal-store");
    }
    server
        .connect_timeout(connect_timeout(&server))
        .tcp_user_timeout(fault::timeout(tcp_user_timeout))
        .keepalives_idle(Duration::from_secs(10));
    server
}

fn connect_timeout(server: &Config) -> Duration {
    fault::timeout(
        server
            .get_connect_timeout()
            .copied()
            .unwrap_or(CONNECT_TIMEOUT),
    )
}

/// Makes connections on one thread, whichever thread needs them: a connection must not end because the thread of the request that
/// happened to need it first has ended.
#[derive(Clone)]
pub(super) struct Connector(Arc<ConnectorState>);

struct ConnectorState {
    thread: Handle,
    /// One for each server that may accept writes.
    servers: Vec<Config>,
    tls: ClientTls,
    /// The index of the server that accepted writes last: it is tried first.
    last: AtomicUsize,
    /// The statements that each connection prepares.
    statements: Vec<&'static str>,
    /// Permits for attempts to connect. Attempts outlive whatever waits for them, and would otherwise pile up at a server
    /// that does not respond.
    attempts: Arc<Semaphore>,
    /// Connections that were completed too late.
    spares: Mutex<Vec<ClientWrapper>>,
    /// Whether any connection has succeeded so far. Before that, startup fails with the error, and prints it.
    has_connected: AtomicBool,
    tls_failures: Mutex<TlsFailures>,
}

impl Connector {
    /// Connects to whichever of these servers accepts writes. The tasks of connections run on `thread`.
    pub(super) fn new(
        servers: &[Config],
        tls: ClientTls,
        statements: Vec<&'static str>,
        tcp_user_timeout: Duration,
        thread: Handle,
    ) -> anyhow::Result<Self> {
        servers.first().context("no server")?;
        Ok(Self(Arc::new(ConnectorState {
            thread,
            servers: servers
                .iter()
                .map(|server| with_defaults(server, tcp_user_timeout))
                .collect(),
            tls,
            last: AtomicUsize::new(0),
            statements,
            attempts: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            spares: Mutex::default(),
            has_connected: AtomicBool::new(false),
            tls_failures: Mutex::default(),
        })))
    }

    pub(super) fn tls(&self) -> ClientTls {
        self.0.tls.clone()
    }

    pub(super) fn discard_spares(&self) {
        lock(&self.0.spares).clear();
    }
}

type ConnectResult = PgResult<ClientWrapper>;

impl Manager for Connector {
    type Type = ClientWrapper;
    type Error = PgError;

    async fn create(&self) -> ConnectResult {
        loop {
            let attempt = Arc::clone(&self.0.attempts).acquire_owned().await;
            if let Some(spare) = self.0.spare() {
                return Ok(spare);
            }
            let (reply, connected) = oneshot::channel();
            let state = Arc::clone(&self.0);
            self.0.thread.spawn(async move {
                if let Err(Some(Ok(unclaimed))) = reply.send(state.connect().await) {
                    state.keep(unclaimed);
                }
                drop(attempt);
            });
            match connected.await {
                Ok(Some(connected)) => return connected,
                // All servers were late. The caller has a deadline.
                Ok(None) => {}
                // The thread is ending, and so is the caller.
                Err(_) => return std::future::pending().await,
            }
        }
    }

    async fn recycle(&self, client: &mut ClientWrapper, _: &Metrics) -> RecycleResult<PgError> {
        match client.is_closed() {
            true => Err(RecycleError::message("the connection is closed")),
            false => Ok(()),
        }
    }
}

impl ConnectorState {
    /// An open connection that was completed too late.
    fn spare(&self) -> Option<ClientWrapper> {
        let mut spares = lock(&self.spares);
        std::iter::from_fn(|| spares.pop()).find(|client| !client.is_closed())
    }

    fn keep(&self, unclaimed: ClientWrapper) {
        let mut spares = lock(&self.spares);
        spares.retain(|client| !client.is_closed());
        if spares.len() < MAX_SPARES {
            spares.push(unclaimed);
        }
    }

    /// Connects to a server that accepts writes. None if all of them were late.
    async fn connect(self: &Arc<Self>) -> Option<ConnectResult> {
        let (count, first) = (self.servers.len(), self.last.load(Ordering::Relaxed));
        let attempts = (first..first + count).map(|index| {
            let (state, index) = (Arc::clone(self), index % count);
            async move {
                let server = &state.servers[index];
                let connecting = state.connect_by_name(server);
                let connected = timeout(connect_timeout(server), connecting).await;
                if let Ok(Some(Ok(_))) = connected {
                    state.last.store(index, Ordering::Relaxed);
                }
                connected.ok().flatten()
            }
        });
        first_success(attempts, STAGGER_DELAY).await
    }

    /// Connects to a server at one of the addresses of its name.
    async fn connect_by_name(self: &Arc<Self>, server: &Config) -> Option<ConnectResult> {
        let servers = match addresses(server).await {
            Ok(servers) => servers,
            Err(error) => {
                let host = PostgresUrl::host(server);
                let problem = format!("PostgreSQL at {host}: {error}");
                return Some(Err(PgError::Unavailable(problem)));
            }
        };
        let attempts = servers.into_iter().map(|server| {
            let state = Arc::clone(self);
            async move { Some(state.connect_to(&server).await) }
        });
        first_success(attempts, STAGGER_DELAY).await
    }

    async fn connect_to(&self, server: &Config) -> ConnectResult {
        let connected = open(server, &self.tls).await;
        let (client, connection) = connected.map_err(|error| {
            let (host, explained) = (PostgresUrl::host(server), self.tls.explain(&error));
            let has_connected = self.has_connected.load(Ordering::Relaxed);
            if let Some(cause) = &explained
                && has_connected
            {
                lock(&self.tls_failures).failed(server, cause);
            }
            PgError::connecting(&host, error, explained, has_connected)
        })?;
        self.has_connected.store(true, Ordering::Relaxed);
        lock(&self.tls_failures).succeeded(server);
        let task = self.thread.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        let client = ClientWrapper::new(client, task);
        prepare(&client, &self.statements).await?;
        Ok(client)
    }
}

/// The same server at each address of its name: tokio-postgres would wait for the first one alone. If the URL asks for a random
/// address, tokio-postgres chooses it.
async fn addresses(server: &Config) -> std::io::Result<Vec<Config>> {
    let ([Host::Tcp(name)], [], LoadBalanceHosts::Disable) = (
        server.get_hosts(),
        server.get_hostaddrs(),
        server.get_load_balance_hosts(),
    ) else {
        return Ok(vec![server.clone()]);
    };
    let port = server.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
    let found = RESOLVER.lookup(name, port).await?;
    let at = |address: SocketAddr| {
        let mut server = server.clone();
        server.hostaddr(address.ip());
        server
    };
    Ok(found.into_iter().map(at).collect())
}

type NewConnection = (tokio_postgres::Client, Connection<Socket, PgStream>);

/// Opens a connection. If TLS is only preferred, and connecting with it fails, connects without it.
async fn open(server: &Config, tls: &ClientTls) -> Result<NewConnection, tokio_postgres::Error> {
    let error = match server.connect(tls.clone()).await {
        Err(error) if server.get_ssl_mode() == SslMode::Prefer => error,
        result => return result,
    };
    // The server may allow this login only without TLS (pg_hba.conf).
    let is_rejected = error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    if !is_rejected && tls.explain(&error).is_none() {
        return Err(error);
    }
    let mut plain = server.clone();
    plain.ssl_mode(SslMode::Disable);
    plain.connect(tls.clone()).await
}

/// Prepares the statements of transactions and of frequent reads, and sets the limits, in one round trip. Prepared one by one, as
/// they are needed, the statements of a creation would take longer than its deadline if the database is far away.
async fn prepare(client: &ClientWrapper, statements: &[&str]) -> Result<(), tokio_postgres::Error> {
    // One that cannot be prepared, because its table is locked or not yet there, is prepared when it is needed.
    let prepared = join_all(
        statements
            .iter()
            .map(|statement| client.prepare_cached(statement)),
    );
    // Sent in this order; the server responds in this order. join_all polls its futures in order only if
    // there are at most 30.
    let limits = |sql| client.batch_execute(Fault::NoTimeouts.choose(sql, ""));
    let synced = client.batch_execute(SYNC_COMMITS);
    // Compatible databases may not have these settings.
    let detecting = client.batch_execute(SET_KEEPALIVES);
    let (limited, synced, _, _, restored) = tokio::join!(biased; limits(PREPARE_LIMITS), synced, detecting, prepared, limits(SET_LIMITS));
    limited.and(synced).and(restored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Database;

    #[test]
    fn the_url_sets_the_timeout_for_connecting() {
        for (url, seconds) in [
            (
                "postgres://me@one:5432,two:5433/animals?connect_timeout=12",
                12,
            ),
            ("postgres://me@one/animals?connect_timeout=1", 1),
            ("postgres://me@one/animals", 5),
        ] {
            let Database::Postgres(parsed) = url.parse().unwrap() else {
                panic!("{url} is not on PostgreSQL");
            };
            for server in parsed.servers() {
                let limit = Duration::from_secs(seconds);
                let server = with_defaults(server, limit);
                assert_eq!(connect_timeout(&server), limit, "{url}");
                assert_eq!(server.get_connect_timeout(), Some(&limit), "{url}");
            }
        }
    }
}
