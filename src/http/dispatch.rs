//! The way of a request from hyper to a service, and of its response back.

use std::convert::Infallible;
use std::net::IpAddr;

use hyper::Request;
use hyper::body::Incoming;

use super::head::compact;
use super::progress::{OpenRequest, Progress};
use super::request_id::RequestIds;
use super::{Body, Exchange, Head, RequestBody, RequestId, Response, Service};

/// Hands a request to a service, and its response to hyper.
pub(super) async fn dispatch<S: Service>(
    request: Request<Incoming>,
    peer: IpAddr,
    service: &S,
    ids: &RequestIds,
    progress: &Progress,
) -> Result<hyper::Response<Body>, Infallible> {
    let mut open = progress.begin();
    let (mut parts, incoming) = request.into_parts();
    let mut body = RequestBody::new(incoming, &parts.headers);
    if !body.is_read() {
        compact(&mut parts);
    }
    let head = Head::new(&parts);
    let id = ids.of(head.request_id, |id| service.accepts_id(id));
    let exchange = Exchange::new(peer, id, open.began);
    let response = service.respond(&head, &mut body, &exchange).await;
    if !body.is_read() {
        // In a box of its own: a response that waits here would be moved once more for every request.
        return Ok(Box::pin(drain(response, body, &exchange.id, open)).await);
    }
    open.ended = exchange.ended.get();
    Ok(send(response, &exchange.id, open))
}

/// Reads what is left of the body of a request that has its response, where the connection can go on. Where it cannot, the response
/// ends it.
async fn drain(
    mut response: Response,
    mut body: RequestBody,
    id: &RequestId,
    open: OpenRequest,
) -> hyper::Response<Body> {
    if !response.close {
        body.drain().await;
    }
    if !body.is_read() {
        open.progress().linger();
        response.close = true;
    }
    send(response, id, open)
}

fn send(mut response: Response, id: &RequestId, open: OpenRequest) -> hyper::Response<Body> {
    response.close |= open.progress().is_draining();
    let status = response.status;
    let (headers, mut body) = response.into_parts(id);
    if body.is_streamed() {
        body.keep(open);
    }
    let mut response = hyper::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
