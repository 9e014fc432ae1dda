//! A client for one request to another server, over HTTP/1.1. Only in builds with the feature `otel`.

use std::io;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderValue};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::tls::ClientTls;

/// The largest response that is read.
const MAX_RESPONSE: usize = 64 * 1024;

/// Sends a request on a new connection, with this TLS if there is one, and returns the whole response. The request has an
/// absolute URL.
pub(crate) async fn send(
    mut request: Request<Bytes>,
    tls: Option<&ClientTls>,
) -> io::Result<Response<Bytes>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let url = request.uri().clone();
    let host = url.host().ok_or_else(invalid)?;
    // An IPv6 address has brackets in a URL, and none for the resolver.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url
        .port_u16()
        .unwrap_or(if tls.is_some() { 443 } else { 80 });
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse::<Uri>().map_err(|_| invalid())?;
    let authority = url.authority().ok_or_else(invalid)?.as_str();
    // Without the user and password that a URL may contain.
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    let authority = HeaderValue::try_from(authority).map_err(|_| invalid())?;
    request.headers_mut().insert(HOST, authority);
    let close = HeaderValue::from_static("close");
    request.headers_mut().insert(CONNECTION, close);

    let stream = TcpStream::connect((host, port)).await?;
    match tls {
        Some(tls) => exchange(tls.connect(host, stream).await?, request).await,
        None => exchange(stream, request).await,
    }
}

async fn exchange<S>(stream: S, request: Request<Bytes>) -> io::Result<Response<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let exchange = async {
        let sent = sender.send_request(request.map(Full::new)).await;
        let (head, body) = sent.map_err(io::Error::other)?.into_parts();
        let body = Limited::new(body, MAX_RESPONSE).collect().await;
        let body = body.map_err(io::Error::other)?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    // The connection makes progress only while it is polled.
    let (response, _) = tokio::join!(exchange, connection);
    response
}
