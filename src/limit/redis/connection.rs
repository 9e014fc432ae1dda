//! A connection to Redis: to one server, or to a cluster.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, RedisResult};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::cluster_node::{self, ClusterNode};
use super::socket::open;
use super::url::{RedisClient, Target};

/// A connection. Its clones can be used at the same time.
#[derive(Clone)]
pub(super) enum RedisConnection {
    One {
        connection: MultiplexedConnection,
        /// The task that drives it. Aborted with the last clone, whatever is in flight.
        driver: Arc<AbortOnDropHandle<()>>,
    },
    Cluster {
        connection: ClusterConnection<ClusterNode>,
        closed: watch::Sender<bool>,
    },
}

impl RedisConnection {
    pub(super) async fn connect(client: &RedisClient) -> RedisResult<Self> {
        let tls = client.tls.as_ref();
        match &client.target {
            Target::One(client) => {
                // The timer wheel enforces the timeouts.
                let config = AsyncConnectionConfig::new().set_response_timeout(None);
                let (connection, driver) = open(client.get_connection_info(), tls, config).await?;
                Ok(Self::One {
                    connection,
                    driver: Arc::new(AbortOnDropHandle::new(driver)),
                })
            }
            Target::Cluster(client) => Ok(Self::Cluster {
                connection: cluster_node::connect(client, tls).await?,
                closed: watch::Sender::new(false),
            }),
        }
    }

    pub(super) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::One { connection, .. } => command.query_async(connection).await,
            // Boxed: following keys from one Redis node to another takes more state than a request should have.
            Self::Cluster { connection, closed } => {
                let response = Box::pin(command.query_async(connection));
                let mut closed = closed.subscribe();
                tokio::select! {
                    biased;
                    _ = closed.wait_for(|closed| *closed) => {
                        Err((ErrorKind::Io, "the connection was closed").into())
                    }
                    response = response => response,
                }
            }
        }
    }

    /// Closes the connection. Requests in flight fail immediately.
    pub(super) fn close(self) {
        match self {
            Self::One { driver, .. } => driver.abort(),
            Self::Cluster { closed, .. } => drop(closed.send_replace(true)),
        }
    }
}
