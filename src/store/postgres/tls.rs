//! TLS for the connections of tokio-postgres.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::client::TlsStream as Encrypted;

use crate::tls::{ClientTls, server_end_point};

/// The handshake with a host.
pub(crate) struct PgHandshake(ClientTls, String);

pub(crate) struct PgStream(Encrypted<Socket>);

impl MakeTlsConnect<Socket> for ClientTls {
    type Stream = PgStream;
    type TlsConnect = PgHandshake;
    type Error = Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<PgHandshake, Infallible> {
        Ok(PgHandshake(self.clone(), host.to_owned()))
    }
}

impl TlsConnect<Socket> for PgHandshake {
    type Stream = PgStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<PgStream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { self.0.connect(&self.1, socket).await.map(PgStream) })
    }
}

impl TlsStream for PgStream {
    /// Binds a SCRAM login to this connection: a machine in the middle cannot relay it, even if no certificate is verified.
    fn channel_binding(&self) -> ChannelBinding {
        let (_, connection) = self.0.get_ref();
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        match certificate.and_then(|certificate| server_end_point(certificate)) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for PgStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for PgStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
