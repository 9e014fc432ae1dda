//! Connections: how they are made, what time-outs they have, and that one with which anything went wrong is thrown away.

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use deadpool::managed::{Manager, Metrics, Object, Pool, RecycleError, RecycleResult};
use deadpool_postgres::{ClientWrapper, Transaction};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, NoTls, Row};

use super::trouble::Trouble;
use super::{in_time, keys, pets, sweep, usage};
use crate::fault::Fault;

/// The most connections of one node.
const CONNECTIONS: usize = 16;

/// How long a connection may take to be made, unless the URL says so with `connect_timeout`.
const CONNECT: Duration = Duration::from_secs(5);

/// How long one server has before the next one is tried as well.
const STAGGER: Duration = Duration::from_millis(750);

/// How many connections are kept that were made too late for whoever waited for them. One is enough to begin with.
const SPARES: usize = 4;

/// How long the network may stay silent before a connection counts as lost.
const SILENCE: Duration = Duration::from_secs(2);

/// What the server enforces by itself, should we be gone before we could tell it.
pub(super) const LIMITS: &str = "SET statement_timeout = 1500; \
                      SET lock_timeout = 1500; \
                      SET idle_in_transaction_session_timeout = 3000";

/// The limits while statements are prepared: one on a locked table must not keep a connection from being made.
const PREPARE_LIMITS: &str = "SET statement_timeout = 1500; SET lock_timeout = 50";

/// The connections of one node.
#[derive(Clone, Debug)]
pub(super) struct Connections(Pool<AtHome>);

impl Connections {
    /// Connections to whichever of these servers takes writes, all of them at home on `thread`.
    pub(super) fn new(servers: &[Config], thread: Handle) -> anyhow::Result<Self> {
        let servers: Arc<[Config]> = servers.iter().map(with_limits).collect();
        servers.first().context("no server")?;
        let at_home = AtHome(Arc::new(Home {
            thread,
            servers,
            last: AtomicUsize::new(0),
            attempts: Arc::new(Semaphore::new(CONNECTIONS)),
            spares: Mutex::default(),
        }));
        Ok(Self(Pool::builder(at_home).max_size(CONNECTIONS).build()?))
    }

    /// Borrows one.
    pub(super) async fn borrow(&self) -> Result<Lease, Trouble> {
        Ok(Lease(Some(self.0.get().await?)))
    }

    /// Borrows one, for something that may take so long in all: half of that is left for it. A connection to a server that is
    /// far away would otherwise be made, and closed again because there was no time left to use it.
    pub(super) async fn borrow_within(&self, time: Duration) -> Result<Lease, Trouble> {
        in_time(time / 2, self.borrow()).await
    }
}

/// The same server, with an end to everything.
fn with_limits(server: &Config) -> Config {
    let mut server = server.clone();
    server.target_session_attrs(TargetSessionAttrs::ReadWrite);
    if server.get_application_name().is_none() {
        server.application_name("animal-store");
    }
    if !Fault::NoTimeouts.is_on() {
        server
            .connect_timeout(connect_timeout(&server))
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(Duration::from_secs(10));
    }
    server
}

/// How long making a connection to this server may take.
fn connect_timeout(server: &Config) -> Duration {
    server.get_connect_timeout().copied().unwrap_or(CONNECT)
}

/// A borrowed connection. It goes back only when it is given back: one that is dropped on the way, because of an error or
/// because time was up, may still have something on its wire that nobody waits for, and is closed.
pub(super) struct Lease(Option<Object<AtHome>>);

impl Lease {
    pub(super) fn give_back(mut self) {
        self.0 = None;
    }
}

impl Deref for Lease {
    type Target = ClientWrapper;

    #[expect(
        clippy::expect_used,
        reason = "only giving back empties it, and takes it"
    )]
    fn deref(&self) -> &ClientWrapper {
        self.0.as_ref().expect("a connection")
    }
}

impl DerefMut for Lease {
    #[expect(
        clippy::expect_used,
        reason = "only giving back empties it, and takes it"
    )]
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        self.0.as_mut().expect("a connection")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// A connection, or a transaction on one: both find statements in the cache of the connection.
pub(super) trait Session {
    /// The rows of a statement, which is prepared once.
    fn rows(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send;
}

impl Session for ClientWrapper {
    async fn rows(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare_cached(statement).await?;
        self.query(&statement, values).await
    }
}

impl Session for Transaction<'_> {
    async fn rows(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare_cached(statement).await?;
        self.query(&statement, values).await
    }
}

/// Makes connections on one thread, whoever asks for them: a connection must not end because the thread of the request that
/// happened to need it first has ended.
#[derive(Debug)]
struct AtHome(Arc<Home>);

#[derive(Debug)]
struct Home {
    thread: Handle,
    /// One for each server that may take writes.
    servers: Arc<[Config]>,
    /// The one that took them last: it is tried first.
    last: AtomicUsize,
    /// Attempts to connect that may still begin. They outlive whoever waits for them, and a server that lets everyone wait
    /// would otherwise collect them.
    attempts: Arc<Semaphore>,
    /// What came too late.
    spares: Mutex<Vec<ClientWrapper>>,
}

type Connected = Result<ClientWrapper, tokio_postgres::Error>;

impl Manager for AtHome {
    type Type = ClientWrapper;
    type Error = tokio_postgres::Error;

    async fn create(&self) -> Connected {
        loop {
            let attempt = Arc::clone(&self.0.attempts).acquire_owned().await;
            if let Some(spare) = self.0.spare() {
                return Ok(spare);
            }
            let (reply, answer) = oneshot::channel();
            let home = Arc::clone(&self.0);
            self.0.thread.spawn(async move {
                let connected = home.connect().await;
                if let Err(Some(Ok(unclaimed))) = reply.send(connected) {
                    home.keep(unclaimed);
                }
                drop(attempt);
            });
            match answer.await {
                Ok(Some(connected)) => return connected,
                // All servers were late. Whoever waits here gives up when its own time is up.
                Ok(None) => {}
                // The thread is ending, and so is whoever waits here.
                Err(_) => return std::future::pending().await,
            }
        }
    }

    async fn recycle(
        &self,
        client: &mut ClientWrapper,
        _: &Metrics,
    ) -> RecycleResult<tokio_postgres::Error> {
        match client.is_closed() {
            true => Err(RecycleError::message("the connection is closed")),
            false => Ok(()),
        }
    }
}

impl Home {
    /// A connection that nobody waited for any more.
    fn spare(&self) -> Option<ClientWrapper> {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| spares.pop()).find(|client| !client.is_closed())
    }

    fn keep(&self, unclaimed: ClientWrapper) {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        spares.retain(|client| !client.is_closed());
        if spares.len() < SPARES {
            spares.push(unclaimed);
        }
    }

    /// Connects to a server that takes writes. One that does not answer does not keep us from the next, and is not given up
    /// for it: it may just be far away. None if all of them were late.
    async fn connect(&self) -> Option<Connected> {
        let (count, first) = (self.servers.len(), self.last.load(Ordering::Relaxed));
        let mut places = (first..first + count).map(|place| place % count).peekable();
        // Those that are not needed any more end with this.
        let mut attempts = JoinSet::new();
        let mut refused = None;
        loop {
            if let Some(place) = places.next() {
                let (home, server) = (self.thread.clone(), self.servers[place].clone());
                attempts.spawn_on(
                    async move { (place, connect_in_time(&home, &server).await) },
                    &self.thread,
                );
            }
            tokio::select! {
                Some(ended) = attempts.join_next() => match ended {
                    Ok((place, Some(Ok(connection)))) => {
                        self.last.store(place, Ordering::Relaxed);
                        return Some(Ok(connection));
                    }
                    Ok((_, Some(Err(error)))) => refused = Some(error),
                    Ok((_, None)) | Err(_) => {}
                },
                () = sleep(STAGGER), if places.peek().is_some() => {}
                else => return refused.map(Err),
            }
        }
    }
}

/// Connects to one server. None if it was late.
async fn connect_in_time(home: &Handle, server: &Config) -> Option<Connected> {
    let connecting = connect_to(home, server);
    match Fault::NoTimeouts.is_on() {
        true => Some(connecting.await),
        false => timeout(connect_timeout(server), connecting).await.ok(),
    }
}

async fn connect_to(home: &Handle, server: &Config) -> Connected {
    let (client, connection) = server.connect(NoTls).await?;
    let task = home.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    });
    let client = ClientWrapper::new(client, task);
    prepare(&client).await?;
    Ok(client)
}

/// Prepares what transactions need, and sets the limits. All of it is sent at once and costs one round trip; prepared one by one, as
/// they are needed, the statements of a creation would cost more than its deadline where the database is far away.
async fn prepare(client: &ClientWrapper) -> Result<(), tokio_postgres::Error> {
    let (before, after) = match Fault::NoTimeouts.is_on() {
        true => ("", ""),
        false => (PREPARE_LIMITS, LIMITS),
    };
    let statements: Vec<String> = [
        pets::statements(),
        keys::statements(),
        usage::statements(),
        sweep::statements(),
    ]
    .concat();
    let mut preparing: Vec<Pin<Box<_>>> = statements
        .iter()
        .map(|statement| Box::pin(client.prepare_cached(statement)))
        .collect();
    // One that cannot be prepared, because its table is locked or not yet there, is prepared when it is needed.
    let prepared = poll_fn(|context| {
        preparing.retain_mut(|statement| statement.as_mut().poll(context).is_pending());
        match preparing.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    });
    // They are sent in this order, and the server responds in this order.
    let (limited, (), restored) = tokio::join!(
        biased;
        client.batch_execute(before),
        prepared,
        client.batch_execute(after)
    );
    limited.and(restored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Database;

    #[test]
    fn the_url_says_how_long_connecting_may_take() {
        for (url, seconds) in [
            (
                "postgres://me@one:5432,two:5433/animals?connect_timeout=12",
                12,
            ),
            ("postgres://me@one/animals?connect_timeout=1", 1),
            ("postgres://me@one/animals", 5),
        ] {
            let Database::Postgres(servers) = url.parse().unwrap() else {
                panic!("{url} is not on PostgreSQL");
            };
            for server in &servers {
                let limit = Duration::from_secs(seconds);
                let server = with_limits(server);
                assert_eq!(connect_timeout(&server), limit, "{url}");
                assert_eq!(server.get_connect_timeout(), Some(&limit), "{url}");
            }
        }
    }
}
