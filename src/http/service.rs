//! The interface between the transport and a service: the API, the admin pages, or the responses during startup.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::request_id::RequestIds;
use super::{Head, Rejection, RequestBody, RequestId, Response, Timeouts};
use crate::clock::Clock;

/// A service that responds to requests. Each thread has its own instance.
#[expect(
    async_fn_in_trait,
    reason = "a service stays on its thread: its futures need not be Send"
)]
pub trait Service {
    /// What a service keeps of a connection, from one request to the next.
    type PerConnection: Default;

    /// Responds to a request. MUST catch panics of its handlers ([`catch_panic`](super::catch_panic)): one that is not caught
    /// closes the connection.
    async fn respond(
        &self,
        head: &Head<'_>,
        body: &mut RequestBody,
        exchange: &Exchange,
        connection: &Self::PerConnection,
    ) -> Response;

    /// Responds to a client whose request is not read. The response MUST have every header that all responses of the service have.
    fn reject(&self, reason: Rejection, peer: IpAddr, id: &RequestId) -> Response;

    /// The source of `Date`.
    fn clock(&self) -> &Clock;

    /// Whether a client may choose this ID for its request.
    fn accepts_id(&self, _id: &[u8]) -> bool {
        true
    }

    /// Whether all steps of a request over HTTP/2 are completed even if its client has reset the stream. Over HTTP/1.1, requests always
    /// are. See [`Exchange::set_uncancellable`] for one step.
    fn completes_requests(&self) -> bool {
        false
    }

    /// Called once, on the thread of the service, before its first request.
    async fn start(&self) {}

    /// Called when a connection has been accepted and not rejected, before its TLS handshake.
    fn opened(&self) {}

    /// Called when a TLS handshake has failed, or took too long.
    fn handshake_failed(&self) {}

    /// Called when a connection for which [`Self::opened`] was called has ended, however it ended.
    fn closed(&self) {}
}

/// What a service knows of a request besides its head and body: the peer, the ID, the limits, the times.
pub struct Exchange {
    /// The address of the peer: the client, or a proxy.
    pub peer: IpAddr,
    pub id: RequestId,
    /// Whether this stream of HTTP/2 exceeds a limit on streams, in total or per address: then the service MUST reject the
    /// request, or respond with a constant. Always false over HTTP/1, where only connections are limited.
    pub is_over_limit: bool,
    /// Whether the service is in a step that is completed even if the client resets its stream.
    pub(super) is_uncancellable: Cell<bool>,
    began: Instant,
    pub(super) ended: Cell<Option<Instant>>,
}

impl Exchange {
    /// A request whose head had arrived at this time.
    pub fn new(peer: IpAddr, id: RequestId, began: Instant) -> Self {
        Self {
            peer,
            id,
            is_over_limit: false,
            is_uncancellable: Cell::new(false),
            began,
            ended: Cell::new(None),
        }
    }

    /// Sets whether the service is in a step that is completed even if the client resets the stream (HTTP/2): what another
    /// system has counted must be counted here, too. Only for short steps.
    pub fn set_uncancellable(&self, is_uncancellable: bool) {
        self.is_uncancellable.set(is_uncancellable);
    }

    /// Records the end of the request, and returns its duration. Reads the clock once for timeouts, log and metrics.
    pub fn end(&self) -> Duration {
        let now = Instant::now();
        self.ended.set(Some(now));
        now.duration_since(self.began)
    }
}

/// State shared by the connections of one thread.
pub(super) struct ThreadState<S> {
    pub(super) service: S,
    pub(super) ids: RequestIds,
    pub(super) timeouts: Timeouts,
    pub(super) draining: Rc<Cell<bool>>,
    pub(super) lingering: Cell<usize>,
    /// What a shutdown waits for: the connections of this thread, and requests over HTTP/2.
    pub(super) tasks: TaskTracker,
}
