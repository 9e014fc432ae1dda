//! HTTP/2 for the client: a connection that requests are sent on one after another.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::{Response, TlsClient};

pub(crate) struct Http2 {
    client: SendRequest<Bytes>,
    runtime: Runtime,
}

impl Http2 {
    #[track_caller]
    pub(crate) fn connect(tls: &TlsClient, address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let client = runtime.block_on(async {
            let tcp = TcpStream::connect(address).await.expect("a connection");
            let connector = TlsConnector::from(tls.config());
            let name = ServerName::from(address.ip());
            let stream = connector.connect(name, tcp).await.expect("a handshake");
            let connected = h2::client::handshake(stream).await;
            let (client, connection) = connected.expect("a connection of HTTP/2");
            tokio::task::spawn(connection);
            client
        });
        Self { client, runtime }
    }

    /// Sends a request, and reads the response.
    #[track_caller]
    pub(crate) fn send(
        &mut self,
        request: http::Request<()>,
        body: Vec<u8>,
        request_line: String,
    ) -> Response {
        let sending = async {
            let (response, mut sender) = self.client.send_request(request, body.is_empty())?;
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
                request_line: request_line.clone(),
            })
        };
        self.runtime
            .block_on(sending)
            .unwrap_or_else(|error: h2::Error| panic!("{request_line}: {error}"))
    }
}
