//! One request and its response, as a service sees them.

use std::cell::Cell;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::request_id::RequestId;

pub struct Exchange {
    /// The address of the peer: the client, or a proxy.
    pub peer: IpAddr,
    pub id: RequestId,
    /// Whether too many requests are in flight, on all connections or from one address. Then the service MUST reject this
    /// one, or respond with a constant.
    pub is_over_limit: bool,
    began: Instant,
    pub(super) ended: Cell<Option<Instant>>,
}

impl Exchange {
    /// A request that began to arrive at this time.
    pub fn new(peer: IpAddr, id: RequestId, began: Instant) -> Self {
        Self {
            peer,
            id,
            is_over_limit: false,
            began,
            ended: Cell::new(None),
        }
    }

    /// Records the end of the request, and returns its duration. Reads the clock once for timeouts, log and metrics.
    pub fn end(&self) -> Duration {
        let now = Instant::now();
        self.ended.set(Some(now));
        now.duration_since(self.began)
    }
}
