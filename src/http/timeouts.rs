//! Timeouts of clients.

use std::time::Duration;

/// The minimum rate in bytes per second at which a client must read a response. Measured over the idle timeout, only while the
/// server waits for the client.
const MIN_RATE: u64 = 1024;

/// How long a connection that is idle or lingers stays open during shutdown if its client sends nothing. A request that arrives
/// meanwhile gets its response, with `Connection: close`.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// The timeouts of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a TLS handshake, for a first byte, and for a head once it has begun.
    pub request: Duration,
    /// Between requests, and for a client to read a part of a response.
    pub idle: Duration,
}

impl Timeouts {
    /// Bytes that a client must read within the idle timeout.
    pub(super) fn min_bytes(&self) -> usize {
        let millis = u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX);
        usize::try_from(millis.saturating_mul(MIN_RATE) / 1000).unwrap_or(usize::MAX)
    }
}
