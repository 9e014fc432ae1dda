//! One HTTP/1 connection, from accept to close.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::connections::Slot;
use super::service::ThreadState;
use super::stream::TimeoutStream;
use super::timeouts::SHUTDOWN_GRACE;
use super::{Rejection, Service, dispatch, raw};

/// The maximum size of a head, in bytes; a larger one gets hyper's bare 431. Also the size of hyper's write buffer.
pub(super) const MAX_HEAD: usize = 16 * 1024;

/// Serves one connection until it is closed, or until the server shuts down and its last request has its response.
pub(super) async fn serve<S: Service>(
    io: impl AsyncRead + AsyncWrite + Unpin,
    slot: Slot,
    peer: IpAddr,
    thread: &ThreadState<S>,
) {
    let ThreadState {
        service,
        ids,
        draining,
        ..
    } = thread;
    let timeout_response = || raw::rejection(service, ids, Rejection::Timeout, peer);
    let stream = TimeoutStream::new(io, slot, thread, &timeout_response);
    let progress = Rc::clone(&stream.progress);
    let per_connection = S::PerConnection::default();
    let service = service_fn(|request| {
        dispatch::dispatch(request, &peer, service, ids, &progress, &per_connection)
    });
    let mut connection = pin!(
        http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            // A client may close its side after its last request, and hyper need not keep reading to detect that (docs/decisions.md).
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service)
    );
    // The task of the connection is woken at shutdown: a select on the connection and the shutdown was 1 % of the instructions of a
    // list request.
    let ended = poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if draining.get() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    let ended = match ended.await {
        Some(ended) => ended,
        None => match timeout(SHUTDOWN_GRACE, connection.as_mut()).await {
            Ok(ended) => ended,
            Err(_) => {
                progress.ending.set(true);
                connection.as_mut().graceful_shutdown();
                connection.as_mut().await
            }
        },
    };
    // An error is ignored: the client has caused it, and the requests of the connection are logged already.
    //
    // If any request had an `Upgrade` to another protocol, such as h2c, hyper ends without a shutdown. It sends the rest and shuts
    // down if it is polled again.
    if ended.is_ok() && !progress.is_shut_down.get() {
        let _ = connection.await;
    }
}
