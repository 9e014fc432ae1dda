//! TLS for the health check. The certificate is not verified: it has the public name of the server and not its address, it may be
//! self-signed, and an expired one is served as well. The request contains nothing secret, and its result is trusted no more than
//! that of plain HTTP.

use std::net::TcpStream;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use crate::tls::{ClientFiles, ClientTls, Verification};

/// Encrypts a connection to a server, whatever its certificate is.
pub(super) fn encrypted(
    host: &str,
    stream: TcpStream,
) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
    let tls = ClientTls::load(&ClientFiles::default(), Verification::None, &[])?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
    let connection = ClientConnection::new(tls.config(), name)?;
    Ok(StreamOwned::new(connection, stream))
}
