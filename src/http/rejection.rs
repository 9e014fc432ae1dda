//! Requests that are not served.

use super::LimitReached;

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A limit of connections is reached.
    TooManyConnections(LimitReached),
    /// The head did not arrive in time.
    Timeout,
    /// Too many requests are in flight, on all connections or from one address.
    TooManyStreams,
    /// The listener requires TLS, and the request came without it.
    PlainHttp,
}
