//! Connections: how they are made, what time-outs they have, and that one with which anything went wrong is thrown away.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::time::Duration;

use deadpool_postgres::{Connect, Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Client, Config, NoTls};

use super::trouble::Trouble;
use crate::fault::Fault;

/// The most connections of one node.
const CONNECTIONS: usize = 16;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(1);

/// How long the network may stay silent before a connection counts as lost.
const SILENCE: Duration = Duration::from_secs(2);

/// What the server enforces by itself, should we be gone before we could tell it.
const LIMITS: &str = "SET statement_timeout = 1500; \
                      SET lock_timeout = 1500; \
                      SET idle_in_transaction_session_timeout = 3000";

/// The connections of one node.
#[derive(Clone, Debug)]
pub(super) struct Connections(Pool);

impl Connections {
    /// Connections as `config` describes them, all of them at home on `thread`.
    pub(super) fn new(config: &Config, thread: Handle) -> anyhow::Result<Self> {
        let mut config = config.clone();
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("animal-store");
        }
        if !Fault::NoTimeouts.is_on() {
            config
                .connect_timeout(CONNECT)
                .tcp_user_timeout(SILENCE)
                .keepalives_idle(Duration::from_secs(10));
        }
        let manager = Manager::from_connect(
            config,
            AtHome(thread),
            ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            },
        );
        Ok(Self(Pool::builder(manager).max_size(CONNECTIONS).build()?))
    }

    /// Borrows one.
    pub(super) async fn borrow(&self) -> Result<Lease, Trouble> {
        Ok(Lease(Some(self.0.get().await?)))
    }
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
struct AtHome(Handle);

type Connecting<'a> = Pin<
    Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + 'a>,
>;

impl Connect for AtHome {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let config = config.clone();
        let home = self.0.clone();
        let connecting = self.0.spawn(async move {
            let (client, connection) = config.connect(NoTls).await?;
            let task = home.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to PostgreSQL ended");
                }
            });
            if !Fault::NoTimeouts.is_on() {
                client.batch_execute(LIMITS).await?;
            }
            Ok((client, task))
        });
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected,
                // The thread is ending, and so is whoever waits here.
                Err(_) => std::future::pending().await,
            }
        })
    }
}
