//! The socket of a connection, with or without TLS.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisConnectionInfo};
use redis::{ErrorKind, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::tls::ClientTls;

/// Opens a connection, and spawns the task that drives it.
pub(super) async fn open(
    info: &ConnectionInfo,
    tls: Option<&ClientTls>,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, JoinHandle<()>)> {
    let ConnectionAddr::Tcp(host, port) = info.addr() else {
        return Err((ErrorKind::InvalidClientConfig, "not an address").into());
    };
    let stream = TcpStream::connect((&**host, *port)).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = tls else {
        return start(info.redis_settings(), stream, config).await;
    };
    let explained = |error: &(dyn std::error::Error + 'static)| {
        let cause = tls.explain(error)?;
        Some(std::io::Error::other(format!("Redis at {host}: {cause}")).into())
    };
    let stream = tls.connect(host, stream).await;
    let stream = stream.map_err(|error| explained(&error).unwrap_or_else(|| error.into()))?;
    let started = async {
        let (mut connection, driver) = start(info.redis_settings(), stream, config).await?;
        // With TLS 1.3 a server rejects the certificate of a client only with its first response.
        let _: redis::Value = redis::cmd("PING").query_async(&mut connection).await?;
        Ok((connection, driver))
    };
    let explained = |error| explained(&error).unwrap_or(error);
    started.await.map_err(explained)
}

async fn start(
    settings: &RedisConnectionInfo,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, JoinHandle<()>)> {
    let (connection, driver) =
        MultiplexedConnection::new_with_config(settings, stream, config).await?;
    Ok((connection, tokio::spawn(driver)))
}
