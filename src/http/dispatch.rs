//! Dispatch of requests from hyper to a service, and of responses back.

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;

use http::header::DATE;
use hyper::Request;
use hyper::body::Incoming;

use super::date::date;
use super::head::compact;
use super::progress::{InFlightRequest, Progress};
use super::request_id::RequestIds;
use super::{Body, Exchange, Head, RequestBody, RequestId, Response, Service};
use crate::clock::Clock;

/// Passes a request to a service, and its response to hyper. `peer` is a reference: an owned address would be placed at the end of the
/// future, after all its other state, and hyper would copy everything before it each time it moves the future.
pub(super) async fn dispatch<S: Service>(
    request: Request<Incoming>,
    peer: &IpAddr,
    service: &S,
    ids: &RequestIds,
    progress: &Rc<Progress>,
    connection: &S::PerConnection,
) -> Result<hyper::Response<Body>, Infallible> {
    let mut in_flight = progress.begin();
    let (mut parts, incoming) = request.into_parts();
    let mut body = RequestBody::new(incoming, &parts.headers, progress);
    let has_body = !body.is_read();
    if has_body {
        compact(&mut parts);
    }
    let head = Head::new(&parts);
    let id = ids.of(head.request_id, |id| service.accepts_id(id));
    let exchange = Exchange::new(*peer, id, in_flight.began);
    let mut response = service
        .respond(&head, &mut body, &exchange, connection)
        .await;
    if has_body && head.has_ambiguous_framing() {
        // A proxy in front may disagree about where the body ends, and treat what follows as another request.
        response.close = true;
    }
    if !body.is_read() {
        // Boxed: few requests need this state.
        return Ok(Box::pin(discard_rest(
            response,
            body,
            &exchange.id,
            in_flight,
            service.clock(),
        ))
        .await);
    }
    in_flight.ended = exchange.ended.get();
    Ok(into_hyper(
        response,
        &exchange.id,
        in_flight,
        service.clock(),
    ))
}

/// Reads the rest of a body after its response is ready, so that the connection can be reused. Otherwise closes the connection.
async fn discard_rest(
    mut response: Response,
    mut body: RequestBody,
    id: &RequestId,
    in_flight: InFlightRequest,
    clock: &Clock,
) -> hyper::Response<Body> {
    if !response.close {
        body.discard_rest().await;
    }
    response.close |= !body.is_read();
    into_hyper(response, id, in_flight, clock)
}

fn into_hyper(
    mut response: Response,
    id: &RequestId,
    in_flight: InFlightRequest,
    clock: &Clock,
) -> hyper::Response<Body> {
    response.close |= in_flight.progress.draining.get();
    if response.close {
        // The client may have sent further requests, or be about to.
        in_flight.progress.lingers.set(true);
    }
    let status = response.status;
    let (mut headers, mut body) = response.into_parts(id);
    // With a steady system clock hyper sets `Date` itself, which saves 2 to 3 % of the instructions of a request. After the clock was
    // set back, its value would stand still.
    if !clock.is_steady_system_clock() {
        headers.insert(DATE, date(clock.now()));
    }
    if body.is_streamed() {
        body.hold_request(in_flight);
    }
    let mut response = hyper::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
