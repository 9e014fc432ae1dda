//! Connections: how they are made, what time-outs they have, and that one with which anything went wrong is thrown away.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use deadpool_postgres::{Connect, Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Client, Config, NoTls};

use super::trouble::{PATIENCE, Trouble};
use crate::fault::Fault;

/// The most connections of one node.
const CONNECTIONS: usize = 16;

/// How long a connection may take to be made; less where there are several servers to try.
const CONNECT: Duration = Duration::from_secs(1);

/// How long the network may stay silent before a connection counts as lost.
const SILENCE: Duration = Duration::from_secs(2);

/// What the server enforces by itself, should we be gone before we could tell it.
pub(super) const LIMITS: &str = "SET statement_timeout = 1500; \
                      SET lock_timeout = 1500; \
                      SET idle_in_transaction_session_timeout = 3000";

/// The connections of one node.
#[derive(Clone, Debug)]
pub(super) struct Connections(Pool);

impl Connections {
    /// Connections to whichever of these servers takes writes, all of them at home on `thread`.
    pub(super) fn new(servers: &[Config], thread: Handle) -> anyhow::Result<Self> {
        let servers: Arc<[Config]> = servers.iter().map(with_limits).collect();
        let first = servers.first().cloned().context("no server")?;
        let at_home = AtHome {
            thread,
            servers,
            last: Arc::default(),
        };
        let fast = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_connect(first, at_home, fast);
        Ok(Self(Pool::builder(manager).max_size(CONNECTIONS).build()?))
    }

    /// Borrows one.
    pub(super) async fn borrow(&self) -> Result<Lease, Trouble> {
        Ok(Lease(Some(self.0.get().await?)))
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
            .connect_timeout(CONNECT)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(Duration::from_secs(10));
    }
    server
}

/// A borrowed connection. It goes back only when it is given back: one that is dropped on the way, because of an error or
/// because time was up, may still have something on its wire that nobody waits for, and is closed.
pub(super) struct Lease(Option<Object>);

impl Lease {
    pub(super) fn give_back(mut self) {
        self.0 = None;
    }
}

impl Deref for Lease {
    type Target = Object;

    #[expect(
        clippy::expect_used,
        reason = "only giving back empties it, and takes it"
    )]
    fn deref(&self) -> &Object {
        self.0.as_ref().expect("a connection")
    }
}

impl DerefMut for Lease {
    #[expect(
        clippy::expect_used,
        reason = "only giving back empties it, and takes it"
    )]
    fn deref_mut(&mut self) -> &mut Object {
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

/// Makes connections on one thread, whoever asks for them: a connection must not end because the thread of the request that
/// happened to need it first has ended.
struct AtHome {
    thread: Handle,
    /// One for each server that may take writes.
    servers: Arc<[Config]>,
    /// The one that took them last: it is tried first.
    last: Arc<AtomicUsize>,
}

type Connected = Result<(Client, JoinHandle<()>), tokio_postgres::Error>;

impl Connect for AtHome {
    fn connect(&self, _: &Config) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        let servers = Arc::clone(&self.servers);
        let (home, last) = (self.thread.clone(), Arc::clone(&self.last));
        let mut attempt = Attempt(self.thread.spawn(connect(home, servers, last)));
        Box::pin(async move {
            match (&mut attempt.0).await {
                Ok(connected) => connected,
                // The thread is ending, and so is whoever waits here.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

/// An attempt to connect. It ends with whoever waits for it; a server that lets everyone wait would otherwise collect them.
struct Attempt(JoinHandle<Connected>);

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects to the first server that takes writes. One that does not answer must not keep us from the next.
async fn connect(home: Handle, servers: Arc<[Config]>, last: Arc<AtomicUsize>) -> Connected {
    let (count, first) = (servers.len(), last.load(Ordering::Relaxed));
    let patience = CONNECT.min(PATIENCE * 3 / 4 / u32::try_from(count).unwrap_or(1));
    let mut refused = None;
    for place in (first..first + count).map(|place| place % count) {
        let connecting = connect_to(&home, &servers[place]);
        let connected = match Fault::NoTimeouts.is_on() {
            true => Ok(connecting.await),
            false => timeout(patience, connecting).await,
        };
        match connected {
            Ok(Ok(connected)) => {
                last.store(place, Ordering::Relaxed);
                return Ok(connected);
            }
            Ok(Err(error)) => refused = Some(error),
            Err(_) => {}
        }
    }
    match refused {
        Some(error) => Err(error),
        // All are late: the time of whoever waits here is up, too.
        None => std::future::pending().await,
    }
}

async fn connect_to(home: &Handle, server: &Config) -> Connected {
    let (client, connection) = server.connect(NoTls).await?;
    let task = home.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    });
    if !Fault::NoTimeouts.is_on() {
        client.batch_execute(LIMITS).await?;
    }
    Ok((client, task))
}
