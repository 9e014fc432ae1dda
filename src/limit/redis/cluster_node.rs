//! The connections to a Redis Cluster. The crate redis opens them when it needs them, through a trait function that gets no context, so
//! the TLS settings are in a thread-local.

use std::cell::RefCell;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::{ClusterConnection, Connect};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, IntoConnectionInfo, Pipeline, RedisError, RedisFuture,
    RedisResult, RetryMethod, Value,
};
use tokio::time::timeout;

use super::socket::open;
use crate::tls::ClientTls;

/// The timeout for connecting to one Redis node. The crate connects to all of them, replicas too, and continues without those that
/// fail. Shorter than the timeouts for connecting to the whole cluster, so that a Redis node that hangs does not prevent the use of
/// the others.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(400);

thread_local! {
    /// How the connections of this thread's limiter are encrypted. Each thread has one limiter, and its tasks stay on it.
    static TLS: RefCell<Option<ClientTls>> = const { RefCell::new(None) };
}

pub(super) async fn connect(
    client: &ClusterClient,
    tls: Option<&ClientTls>,
) -> RedisResult<ClusterConnection<ClusterNode>> {
    TLS.set(tls.cloned());
    client.get_async_generic_connection().await
}

#[derive(Clone)]
pub(crate) struct ClusterNode(MultiplexedConnection);

impl Connect for ClusterNode {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        let tls = TLS.with_borrow(Clone::clone);
        Box::pin(async move {
            let info = info.into_connection_info()?;
            let opened = timeout(CONNECT_TIMEOUT, open(&info, tls.as_ref(), config)).await;
            let late = |_| RedisError::from((ErrorKind::Io, "connecting timed out"));
            let (connection, _) = opened.map_err(late)??;
            Ok(Self(connection))
        })
    }
}

/// After some errors the crate connects again and repeats the command. But Redis may have executed it: a request would count twice.
/// As an error of the client it is final, and the breaker opens.
fn as_final(error: RedisError) -> RedisError {
    match error.retry_method() {
        RetryMethod::Reconnect | RetryMethod::RetryImmediately => {
            let cause = error.to_string();
            (ErrorKind::Client, "the connection failed", cause).into()
        }
        _ => error,
    }
}

impl ConnectionLike for ClusterNode {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async { self.0.req_packed_command(command).await.map_err(as_final) })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}
