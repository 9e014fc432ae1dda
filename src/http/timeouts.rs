//! How long clients may take.

use std::time::Duration;

/// Bytes a second that a client has to take of a response, measured over the idle timeout. Only one that lets us wait is measured.
const SLOWEST: u64 = 1024;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For a first byte, and for a head once it has begun.
    pub request: Duration,
    /// Between requests, and to take some of a response.
    pub idle: Duration,
}

impl Timeouts {
    /// Bytes that a client has to take within the idle timeout.
    pub(super) fn quota(&self) -> usize {
        let millis = u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX);
        usize::try_from(millis.saturating_mul(SLOWEST) / 1000).unwrap_or(usize::MAX)
    }
}
