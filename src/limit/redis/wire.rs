//! Where Redis is, and the connection to it: one server, or a cluster of them.

use std::fmt;
use std::str::FromStr;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisResult};

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

/// A text that names no Redis. It may hold a password, so it is not repeated.
#[derive(Debug, thiserror::Error)]
#[error(
    "takes redis://USER:PASSWORD@HOST:PORT/NUMBER, for example redis://127.0.0.1:6379, \
     or several nodes of a cluster with commas between"
)]
pub struct NotARedisUrl;

impl FromStr for RedisUrl {
    type Err = NotARedisUrl;

    fn from_str(text: &str) -> Result<Self, NotARedisUrl> {
        let (nodes, hosts) = hosts::of("redis", text).ok_or(NotARedisUrl)?;
        let target = match &*nodes {
            [one] => redis::Client::open(&**one).map(|client| Target::One(client.into())),
            _ => ClusterClient::new(nodes).map(|client| Target::Cluster(client.into())),
        };
        Ok(Self {
            hosts,
            target: target.map_err(|_| NotARedisUrl)?,
        })
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({})", self.hosts)
    }
}

/// A connection, which all who have a copy share at once.
#[derive(Clone)]
pub(super) enum Wire {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Wire {
    pub(super) async fn connect(url: &RedisUrl) -> RedisResult<Self> {
        match &url.target {
            Target::One(client) => {
                // The time-outs are ours: one for each request, over all its steps.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(None)
                    .set_response_timeout(None);
                let connecting = client.get_multiplexed_async_connection_with_config(&config);
                connecting.await.map(Self::One)
            }
            Target::Cluster(client) => client.get_async_connection().await.map(Self::Cluster),
        }
    }

    pub(super) async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::One(connection) => command.query_async(connection).await,
            // It follows keys that move from node to node, which takes more state than a request should carry.
            Self::Cluster(connection) => Box::pin(command.query_async(connection)).await,
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
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
    fn what_names_no_redis_is_refused() {
        for text in ["", "redis:", "http://a", "127.0.0.1:6379", "redis://a:port"] {
            assert!(text.parse::<RedisUrl>().is_err(), "{text}");
        }
    }
}
