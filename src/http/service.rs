//! The interface between the transport and a service: the API, the admin pages, or the responses during startup.

use std::net::IpAddr;

use super::{Exchange, Head, Rejection, RequestBody, RequestId, Response};
use crate::clock::Timestamp;

/// A service that responds to requests. Each thread has its own instance.
#[expect(
    async_fn_in_trait,
    reason = "a service stays on its thread: its futures need not be Send"
)]
pub trait Service {
    /// What a service keeps of a connection, from one request to the next.
    type Connection: Default;

    /// Responds to a request. MUST catch panics of its handlers ([`catch_panic`](super::catch_panic)): one that is not caught
    /// ends the connection.
    async fn respond(
        &self,
        head: &Head<'_>,
        body: &mut RequestBody,
        exchange: &Exchange,
        connection: &Self::Connection,
    ) -> Response;

    /// Responds to a client whose request is not read. The response MUST have every header that any response of the service has.
    fn reject(&self, reason: Rejection, peer: IpAddr, id: &RequestId) -> Response;

    /// The time, for the `Date` of rejections and of all responses over HTTP/2; over HTTP/1.1, hyper sets the others.
    fn now(&self) -> Timestamp;

    /// Whether a client may choose this ID for its request.
    fn accepts_id(&self, _id: &[u8]) -> bool {
        true
    }

    /// Called once, on the thread of the service, before its first request.
    async fn start(&self) {}

    fn opened(&self) {}

    /// Called when a TLS handshake has failed, or took too long.
    fn handshake_failed(&self) {}

    fn closed(&self) {}
}
