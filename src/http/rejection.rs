//! Connections that are rejected.

use crate::names::named;

/// Why a connection is rejected, without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    TooManyConnections(ReachedLimit),
    /// The head did not arrive in time.
    Timeout,
    /// The listener requires TLS, and the request came without it.
    PlainHttp,
}

impl Rejection {
    /// The limit that was reached, if it was one.
    pub fn limit(self) -> Option<ReachedLimit> {
        match self {
            Self::TooManyConnections(limit) => Some(limit),
            Self::Timeout | Self::PlainHttp => None,
        }
    }
}

named! {
    /// The limit on connections that was reached.
    pub enum ReachedLimit {
        /// No connection waits for its client, so none can be evicted.
        Total = "total",
        Address = "address",
    }
}
