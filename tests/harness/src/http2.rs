//! HTTP/2 for the client: one request on a connection of its own.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::{Response, TlsClient};

/// Sends a request, and reads the response.
#[track_caller]
pub(crate) fn send(
    tls: &TlsClient,
    address: SocketAddr,
    request: http::Request<()>,
    body: Vec<u8>,
    asked: String,
) -> Response {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let sending = async {
        let tcp = TcpStream::connect(address).await.expect("a connection");
        let connector = TlsConnector::from(tls.config());
        let name = ServerName::from(address.ip());
        let stream = connector.connect(name, tcp).await.expect("a handshake");
        let (mut client, connection) = h2::client::handshake(stream).await?;
        tokio::task::spawn(connection);
        let (response, mut sender) = client.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            // Whether the server reads it shows in its response.
            let _ = sender.send_data(Bytes::from(body), true);
        }
        let (head, mut received) = response.await?.into_parts();
        let mut body = Vec::new();
        while let Some(data) = received.data().await {
            let data = data?;
            let _ = received.flow_control().release_capacity(data.len());
            body.extend_from_slice(&data);
        }
        let text = |value: &http::HeaderValue| value.to_str().expect("text").to_owned();
        Ok(Response {
            status: head.status.as_u16(),
            headers: head
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
            body,
            asked: asked.clone(),
        })
    };
    runtime
        .block_on(sending)
        .unwrap_or_else(|error: h2::Error| panic!("{asked}: {error}"))
}
