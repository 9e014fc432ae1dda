//! The URL of Redis, and a connection to it: one server, or a cluster.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, RedisResult};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::hosts;

/// `redis://HOST:PORT`, or several nodes of a cluster: `redis://HOST:PORT,HOST:PORT`.
#[derive(Clone)]
pub struct RedisUrl {
    /// Without the password.
    hosts: String,
    target: Target,
}

#[derive(Clone)]
enum Target {
    One(Box<redis::Client>),
    Cluster(Box<ClusterClient>),
}

/// An invalid URL. It may contain a password, so it is not repeated.
#[derive(Debug, thiserror::Error)]
#[error(
    "must be redis://USER:PASSWORD@HOST:PORT/NUMBER, for example redis://127.0.0.1:6379, \
     or several nodes of a cluster separated by commas"
)]
pub struct InvalidRedisUrl;

impl FromStr for RedisUrl {
    type Err = InvalidRedisUrl;

    fn from_str(text: &str) -> Result<Self, InvalidRedisUrl> {
        let (nodes, hosts) = hosts::split_url("redis", text).ok_or(InvalidRedisUrl)?;
        let target = match &*nodes {
            [one] => redis::Client::open(&**one).map(|client| Target::One(client.into())),
            _ => ClusterClient::new(nodes).map(|client| Target::Cluster(client.into())),
        };
        Ok(Self {
            hosts,
            target: target.map_err(|_| InvalidRedisUrl)?,
        })
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({})", self.hosts)
    }
}

/// A connection. Its clones can be used at the same time.
#[derive(Clone)]
pub(super) enum RedisConnection {
    One {
        connection: MultiplexedConnection,
        driver: Arc<Driver>,
    },
    Cluster {
        connection: ClusterConnection,
        closed: watch::Sender<bool>,
    },
}

/// The task that drives a connection. It is aborted with the last clone, whatever is in flight.
pub(super) struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RedisConnection {
    pub(super) async fn connect(url: &RedisUrl) -> RedisResult<Self> {
        match &url.target {
            Target::One(client) => {
                let info = client.get_connection_info();
                let ConnectionAddr::Tcp(host, port) = info.addr() else {
                    return Err((ErrorKind::InvalidClientConfig, "not an address").into());
                };
                let stream = TcpStream::connect((&**host, *port)).await?;
                stream.set_nodelay(true)?;
                // The timer wheel enforces the timeouts.
                let config = AsyncConnectionConfig::new().set_response_timeout(None);
                let settings = info.redis_settings();
                let (connection, driver) =
                    MultiplexedConnection::new_with_config(settings, stream, config).await?;
                Ok(Self::One {
                    connection,
                    driver: Arc::new(Driver(tokio::spawn(driver).abort_handle())),
                })
            }
            Target::Cluster(client) => Ok(Self::Cluster {
                connection: client.get_async_connection().await?,
                closed: watch::Sender::new(false),
            }),
        }
    }

    pub(super) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::One { connection, .. } => command.query_async(connection).await,
            // Boxed: following keys from node to node takes more state than a request should have.
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

    /// Closes the connection. Requests in flight fail at once.
    pub(super) fn close(self) {
        match self {
            Self::One { driver, .. } => driver.0.abort(),
            Self::Cluster { closed, .. } => drop(closed.send_replace(true)),
        }
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisConnection")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_is_a_server_and_several_are_a_cluster() {
        let parse = |text: &str| text.parse::<RedisUrl>().unwrap();
        let one = parse("redis://me:secret@cache:6379/3");
        assert!(matches!(one.target, Target::One(_)));
        assert_eq!(format!("{one:?}"), "RedisUrl(cache:6379)");
        let several = parse("redis://:secret@a:1,b:2,c:3");
        assert!(matches!(several.target, Target::Cluster(_)));
        assert_eq!(format!("{several:?}"), "RedisUrl(a:1,b:2,c:3)");
    }

    #[test]
    fn an_invalid_url_is_rejected() {
        for text in ["", "redis:", "http://a", "127.0.0.1:6379", "redis://a:port"] {
            assert!(text.parse::<RedisUrl>().is_err(), "{text}");
        }
    }
}
