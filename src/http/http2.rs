//! HTTP/2: one connection, from its preface to its end. Requests are served by the same services, with the same limits and
//! timeouts, as those of HTTP/1.
//!
//! The crate h2 is used without hyper: a stream must be given no more data than its client has room for, and hyper hands over a
//! whole chunk of a body as soon as there is room for one byte of it.

mod context;
mod frames;
mod header_table;
mod outgoing;
mod received;
mod request;
mod send;
mod wire;

pub(super) use received::ReceivedBody;

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::{Builder, Connection, Handshake};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Service;
use super::body::CHUNK_BYTES;
use super::connection::MAX_HEAD;
use super::connections::Slot;
use super::linger::Linger;
use super::progress::{Phase, Progress};
use super::service::ThreadState;
use super::timeouts::{SHUTDOWN_GRACE, Timeouts};
use context::ConnectionContext;
use outgoing::Outgoing;
use wire::Wire;

const MAX_STREAMS: u32 = 100;

/// The bytes that a client may send on a stream before they are read. Enough for the largest body of the services, so that no client
/// has to wait for more room.
const STREAM_WINDOW: u32 = 16 * 1024;

/// The bytes that a client may send on all streams of a connection before they are read. The protocol allows no smaller value.
const CONNECTION_WINDOW: u32 = 65_535;

/// The bytes of the dynamic table of HPACK: enough for the fields that requests have in common. An entry of `:path`, `:authority` or
/// `:scheme` can keep the whole buffer in which it arrived, and may count as only 38 bytes (32, the name, and one for the value).
const HEADER_TABLE: u32 = 512;

/// The maximum number of streams that the client has reset before they were accepted.
const MAX_RESET_BY_CLIENT: usize = 20;

/// The maximum number of streams that the server has reset because of errors of the client.
const MAX_RESET_FOR_ERRORS: usize = 128;

/// The maximum number of streams that are remembered after a reset, because the client may not know of it yet.
const MAX_REMEMBERED_RESETS: usize = 100;

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .header_table_size(HEADER_TABLE)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(CHUNK_BYTES)
        .max_pending_accept_reset_streams(MAX_RESET_BY_CLIENT)
        .max_local_error_reset_streams(Some(MAX_RESET_FOR_ERRORS))
        .max_concurrent_reset_streams(MAX_REMEMBERED_RESETS);
    builder
}

/// Serves one connection until it is closed, or until the server shuts down and its last request has its response.
pub(super) async fn serve<S: Service + 'static>(
    io: impl AsyncRead + AsyncWrite + Unpin,
    slot: Slot,
    peer: IpAddr,
    thread: &Rc<ThreadState<S>>,
) {
    let now = Instant::now();
    let wire = Wire::new(io);
    let progress = Progress::new(slot, &thread.draining, now);
    let outgoing = Rc::new(Outgoing::default());
    let mut served = ServedConnection {
        state: State::Handshake(builder().handshake(wire.clone())),
        wire,
        deadlines: Deadlines {
            timeouts: thread.timeouts,
            timer: pin!(sleep_until(now + thread.timeouts.request)),
            grace_ends: None,
        },
        context: Rc::new(ConnectionContext {
            thread: Rc::clone(thread),
            peer,
            per_connection: S::PerConnection::default(),
            progress,
            outgoing: Rc::clone(&outgoing),
        }),
        goaway_sent: false,
    };
    let is_complete = poll_fn(|cx| served.poll(cx)).await;
    // Requests that wait to send end with the connection.
    outgoing.close();
    if is_complete && let Some(mut linger) = Linger::begin(&thread.lingering) {
        // The window updates of a client that has not read everything yet would reset the connection.
        let (wire, timer) = (&mut served.wire, &mut served.deadlines.timer);
        let progress = &served.context.progress;
        poll_fn(|cx| {
            wire.begin_turn();
            linger.poll(wire, timer.as_mut(), progress, cx)
        })
        .await;
    }
}

enum State<IO: AsyncRead + AsyncWrite + Unpin> {
    Handshake(Handshake<Wire<IO>, Bytes>),
    Serving(Connection<Wire<IO>, Bytes>),
}

struct ServedConnection<'a, IO: AsyncRead + AsyncWrite + Unpin, S: Service> {
    state: State<IO>,
    wire: Wire<IO>,
    deadlines: Deadlines<'a>,
    context: Rc<ConnectionContext<S>>,
    /// Whether the GOAWAY has been sent that ends the connection with its last response.
    goaway_sent: bool,
}

impl<IO: AsyncRead + AsyncWrite + Unpin, S: Service + 'static> ServedConnection<'_, IO, S> {
    /// Makes all progress that is possible. Ready when the connection has ended: with true if that was after its last response, and
    /// not because of an error, a timeout or an eviction.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.wire.begin_turn();
        let progress = &self.context.progress;
        progress.activity().store_waker(cx.waker());
        if let Poll::Ready(is_complete) = self.poll_connection(cx) {
            // The last frames of h2, such as a GOAWAY.
            let _ = self.wire.poll_send(cx);
            return Poll::Ready(is_complete);
        }
        let progress = &self.context.progress;
        match self.wire.poll_send(cx) {
            Poll::Ready(Ok(())) => self.context.outgoing.passed_on(),
            Poll::Ready(Err(_)) => return Poll::Ready(false),
            Poll::Pending => {}
        }
        progress.release_streams();
        let is_evicted = progress.activity().is_evicted();
        if is_evicted || self.deadlines.poll(progress, &self.wire, cx).is_ready() {
            self.send_goaway(cx);
            return Poll::Ready(false);
        }
        Poll::Pending
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Self {
            state,
            wire,
            deadlines,
            context,
            goaway_sent,
        } = self;
        let is_draining = context.progress.draining.get();
        if is_draining && deadlines.grace_ends.is_none() {
            // Forgets what was received before the shutdown.
            wire.take_received();
            deadlines.grace_ends = Some(Instant::now() + SHUTDOWN_GRACE);
        }
        if let State::Handshake(handshake) = state {
            match Pin::new(handshake).poll(cx) {
                Poll::Ready(Ok(connection)) => {
                    *state = State::Serving(connection);
                    context.progress.enter(Phase::Idle);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
        }
        let State::Serving(connection) = state else {
            return Poll::Pending;
        };
        if is_draining {
            context.outgoing.drain();
        }
        if (is_draining || wire.must_reconnect()) && !*goaway_sent {
            *goaway_sent = true;
            connection.graceful_shutdown();
        }
        loop {
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    // `poll_accept` has passed on what h2 held, unless the socket takes nothing.
                    if wire.blocked_since().is_none() {
                        context.outgoing.passed_on();
                    }
                    request::start(context, request, respond, cx);
                }
                // Errors of a connection are caused by its client, and its requests are logged already.
                Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Sends a GOAWAY, if it can be written without blocking.
    fn send_goaway(&mut self, cx: &mut Context<'_>) {
        if let State::Serving(connection) = &mut self.state {
            connection.abrupt_shutdown(h2::Reason::NO_ERROR);
            let _ = connection.poll_closed(cx);
            let _ = self.wire.poll_send(cx);
        }
    }
}

/// The deadlines of a connection. Those of a request are elsewhere: for its body where it is read, for its response where that is
/// sent.
struct Deadlines<'a> {
    timeouts: Timeouts,
    timer: Pin<&'a mut Sleep>,
    /// When a connection without requests ends, once the server shuts down.
    grace_ends: Option<Instant>,
}

impl Deadlines<'_> {
    /// Ready when the client has missed a deadline.
    fn poll<IO: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        progress: &Progress,
        wire: &Wire<IO>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            let Some(deadline) = self.next(progress, wire) else {
                return Poll::Pending;
            };
            // It is re-armed when it fires, not each time a deadline moves.
            if self.timer.deadline() > deadline || self.timer.is_elapsed() {
                self.timer.as_mut().reset(deadline);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            if now < deadline || wire.reads_enough(self.timeouts) {
                continue;
            }
            if self.grace_ends.is_none() || !wire.take_received() {
                return Poll::Ready(());
            }
            // It may be reading its last response: what it sends after a close would reset the connection.
            self.grace_ends = Some(now + SHUTDOWN_GRACE);
        }
    }

    /// The next deadline, if the connection waits for its client.
    fn next<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        progress: &Progress,
        wire: &Wire<IO>,
    ) -> Option<Instant> {
        let Timeouts { request, idle } = self.timeouts;
        let head = wire.head_since().map(|since| since + request);
        let blocked = wire.blocked_since().map(|since| since + idle);
        let waiting = match progress.phase.get() {
            Phase::New => Some(progress.since.get() + request),
            Phase::Idle => Some(progress.since.get() + idle),
            Phase::Head | Phase::Busy | Phase::Streaming => None,
        };
        // While the last responses are read slowly, only that has a deadline.
        let waiting = waiting.filter(|_| blocked.is_none());
        let grace = self.grace_ends.filter(|_| waiting.is_some());
        [head, blocked, waiting, grace].into_iter().flatten().min()
    }
}
