//! One request: passed to the service, and its response to h2.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{CONTENT_LENGTH, DATE, HeaderMap};
use http::{Method, Request, StatusCode};

use super::super::date::date;
use super::super::head::compact;
use super::super::linger::{Linger, SILENCE_TIMEOUT};
use super::super::progress::InFlightRequest;
use super::super::service::ThreadState;
use super::super::timeouts::SHUTDOWN_GRACE;
use super::super::{Exchange, Head, RequestBody, Response, Service};
use super::context::ConnectionContext;
use super::received::ReceivedBody;
use super::send::{WhenFull, send_body};

/// Starts a request. Most end immediately; the others become tasks.
pub(super) fn start<S: Service + 'static>(
    context: &Rc<ConnectionContext<S>>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    cx: &mut std::task::Context<'_>,
) {
    let in_flight = context.progress.begin();
    let mut serving = Box::pin(serve(Rc::clone(context), request, respond, in_flight));
    if serving.as_mut().poll(cx).is_pending() {
        // A shutdown waits for it, even if its connection has ended.
        context.thread.tasks.spawn_local(serving);
    }
}

async fn serve<S: Service>(
    context: Rc<ConnectionContext<S>>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    in_flight: InFlightRequest,
) {
    let is_over_limit = !context.progress.reserve_stream();
    let ThreadState { service, ids, .. } = &*context.thread;
    let (mut parts, stream) = request.into_parts();
    let remaining = content_length(&parts.headers);
    let received = ReceivedBody { stream, remaining };
    let mut body = RequestBody::over_http2(received, &parts.headers, &context.progress);
    if !body.is_read() {
        compact(&mut parts);
    }
    let head = Head::new(&parts);
    let id = ids.of(head.request_id, |id| service.accepts_id(id));
    let mut exchange = Exchange::new(context.peer, id, in_flight.began);
    exchange.is_over_limit = is_over_limit;
    let continue_needed = body.continue_needed.clone();
    let response = {
        let mut response =
            pin!(service.respond(&head, &mut body, &exchange, &context.per_connection));
        let respond = &mut respond;
        poll_fn(|cx| match response.as_mut().poll(cx) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => {
                if continue_needed.as_ref().is_some_and(|needed| needed.take()) {
                    send_continue(respond);
                }
                if service.completes_requests() || exchange.is_uncancellable.get() {
                    return Poll::Pending;
                }
                // The client has reset the stream, or the connection has ended.
                respond.poll_reset(cx).map(|_| None)
            }
        })
        .await
    };
    let Some(response) = response else { return };
    let is_head = parts.method == Method::HEAD;
    // The client may take long to read the response, and a head is large.
    drop(parts);
    let sending = send(&context, response, &exchange, is_head, &mut respond);
    body.discard_during(sending).await;
    if !body.is_read() && !is_over_limit {
        let count = &context.thread.lingering;
        tokio::select! {
            () = Linger::discard(count, &mut body, SILENCE_TIMEOUT) => {}
            // A shutdown shortens the pauses that the client may make.
            () = context.outgoing.draining() => Linger::discard(count, &mut body, SHUTDOWN_GRACE).await,
        }
    }
}

/// Lets a client that waits for `100 Continue` send its body. If the stream has ended, the next step detects it.
fn send_continue(respond: &mut SendResponse<Bytes>) {
    let mut head = http::Response::new(());
    *head.status_mut() = StatusCode::CONTINUE;
    let _ = respond.send_informational(head);
}

/// Sends a response. Ends early if the client has reset the stream or does not read.
async fn send<S: Service>(
    context: &ConnectionContext<S>,
    mut response: Response,
    exchange: &Exchange,
    is_head: bool,
    respond: &mut SendResponse<Bytes>,
) {
    // Only the stream ends with its response: the connection stays open for others.
    response.close = false;
    let status = response.status;
    let (mut headers, body) = response.into_parts(&exchange.id);
    headers.insert(DATE, date(context.thread.service.clock().now()));
    // A 204 must not have a length, and a 304 only that of the 200 that it replaces (RFC 9110).
    let has_content = !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if !body.is_streamed() && has_content {
        headers.insert(CONTENT_LENGTH, body.bytes().len().into());
    }
    let mut head = http::Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = headers;
    let ends = is_head || (!body.is_streamed() && body.bytes().is_empty());
    let Ok(stream) = respond.send_response(head, ends) else {
        return;
    };
    if !ends {
        let when_full = match exchange.is_over_limit {
            true => WhenFull::Reset,
            false => WhenFull::Wait,
        };
        send_body(stream, body, context, when_full).await;
    }
}

/// The length of the body that the client announces. h2 rejects one that is malformed.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}
