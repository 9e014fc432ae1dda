//! The handshake of one connection: bounded in time, and ended by an eviction or a shutdown.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::server::TlsStream;

use super::super::activity::Activity;
use super::super::service::ThreadState;
use super::super::timeouts::SHUTDOWN_GRACE;
use super::Tls;

/// Bytes that TLS buffers for a client that does not read: one record. rustls would buffer four.
pub(in crate::http) const MAX_BUFFERED_BYTES: usize = 16 * 1024;

#[expect(
    clippy::large_enum_variant,
    reason = "it is matched at once, and not stored"
)]
pub(in crate::http) enum Handshake {
    /// The connection is encrypted.
    Done(TlsStream<TcpStream>),
    /// The client sent a request without TLS.
    PlainHttp(TcpStream),
    /// It failed, or took too long.
    Failed,
    /// The client had sent nothing when it closed the connection, or the server ended it.
    Ended,
}

/// Performs the handshake within the timeout of a request; once a shutdown has started, it has only [`SHUTDOWN_GRACE`] left. An evicted
/// connection is closed.
pub(in crate::http) async fn perform_handshake<S>(
    tls: &Tls,
    tcp: TcpStream,
    activity: &Activity,
    thread: &ThreadState<S>,
) -> Handshake {
    let mut handshake = pin!(async {
        match is_plain(&tcp).await {
            Some(true) => return Handshake::PlainHttp(tcp),
            Some(false) => {}
            None => return Handshake::Ended,
        }
        let accepted = tls.0.acceptor.accept_with(tcp, |session| {
            session.set_buffer_limit(Some(MAX_BUFFERED_BYTES));
        });
        match accepted.await {
            Ok(stream) => Handshake::Done(stream),
            Err(_) => Handshake::Failed,
        }
    });
    let deadline = Instant::now() + thread.timeouts.request;
    let mut timer = pin!(sleep_until(deadline));
    let mut draining = false;
    poll_fn(|cx| {
        if let Poll::Ready(done) = handshake.as_mut().poll(cx) {
            return Poll::Ready(done);
        }
        activity.store_waker(cx.waker());
        if activity.is_evicted() {
            return Poll::Ready(Handshake::Ended);
        }
        if thread.draining.get() && !draining {
            draining = true;
            let grace_ends = Instant::now() + SHUTDOWN_GRACE;
            timer.as_mut().reset(deadline.min(grace_ends));
        }
        timer.as_mut().poll(cx).map(|()| match draining {
            true => Handshake::Ended,
            false => Handshake::Failed,
        })
    })
    .await
}

/// Whether the client speaks HTTP without TLS: a TLS record begins with a control character, a request with a capital letter.
/// `None` if the client has closed the connection.
async fn is_plain(tcp: &TcpStream) -> Option<bool> {
    let mut first = [0];
    match tcp.peek(&mut first).await {
        Ok(1..) => Some(first[0].is_ascii_uppercase()),
        _ => None,
    }
}
