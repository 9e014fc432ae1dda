//! One request and its response, as a service sees them.

use std::cell::Cell;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::request_id::RequestId;

/// A request and its response.
#[derive(Debug)]
pub struct Exchange {
    /// The other end of the connection.
    pub peer: IpAddr,
    /// The ID of the request.
    pub id: RequestId,
    began: Instant,
    pub(super) ended: Cell<Option<Instant>>,
}

impl Exchange {
    /// A request that began to arrive at this time.
    pub fn new(peer: IpAddr, id: RequestId, began: Instant) -> Self {
        Self {
            peer,
            id,
            began,
            ended: Cell::new(None),
        }
    }

    /// Ends the work of the service, and returns how long the request took. Reads the clock for all who need to know.
    pub fn end(&self) -> Duration {
        let now = Instant::now();
        self.ended.set(Some(now));
        now.duration_since(self.began)
    }
}
