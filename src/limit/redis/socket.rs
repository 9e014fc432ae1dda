//! The socket of a connection, with or without TLS.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisConnectionInfo};
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::blocking::Resolver;
use crate::staggered::first_success;
use crate::tls::ClientTls;

/// How long one address of a name has before the next one is tried as well.
const STAGGER_DELAY: Duration = Duration::from_millis(100);

static RESOLVER: Resolver = Resolver::new();

/// Opens a connection to one of the addresses of the server's name, and spawns the task that drives it.
pub(super) async fn open(
    info: &ConnectionInfo,
    tls: Option<&ClientTls>,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, JoinHandle<()>)> {
    let ConnectionAddr::Tcp(host, port) = info.addr() else {
        return Err((ErrorKind::InvalidClientConfig, "not an address").into());
    };
    let addresses = RESOLVER.lookup(host, *port).await?;
    let attempts = addresses.into_iter().map(|address| {
        let (settings, config) = (info.redis_settings(), config.clone());
        async move {
            let stream = match TcpStream::connect(address).await {
                Ok(stream) => stream,
                Err(error) => return Some(Err(RedisError::from(error))),
            };
            match start(stream, host, settings, tls, config).await {
                // It may be a proxy without a server.
                Err(error) if error.is_connection_dropped() => Some(Err(error)),
                // What a server responds is final.
                started => Some(Ok(started)),
            }
        }
    });
    match first_success(attempts, STAGGER_DELAY).await {
        Some(started) => started?,
        None => Err((ErrorKind::Io, "the host has no address").into()),
    }
}

async fn start(
    stream: TcpStream,
    host: &str,
    settings: &RedisConnectionInfo,
    tls: Option<&ClientTls>,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, JoinHandle<()>)> {
    stream.set_nodelay(true)?;
    let Some(tls) = tls else {
        return start_on(stream, settings, config).await;
    };
    let explained = |error: &(dyn std::error::Error + 'static)| {
        let cause = tls.explain(error)?;
        Some(std::io::Error::other(format!("Redis at {host}: {cause}")).into())
    };
    let stream = tls.connect(host, stream).await;
    let stream = stream.map_err(|error| explained(&error).unwrap_or_else(|| error.into()))?;
    let started = async {
        let (mut connection, driver) = start_on(stream, settings, config).await?;
        // With TLS 1.3 a server rejects the certificate of a client only with its first response.
        let _: redis::Value = redis::cmd("PING").query_async(&mut connection).await?;
        Ok((connection, driver))
    };
    let explained = |error| explained(&error).unwrap_or(error);
    started.await.map_err(explained)
}

async fn start_on(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, JoinHandle<()>)> {
    let (connection, driver) =
        MultiplexedConnection::new_with_config(settings, stream, config).await?;
    Ok((connection, tokio::spawn(driver)))
}
