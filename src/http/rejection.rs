//! Connections that are rejected.

use super::LimitReached;

/// Why a connection is rejected, without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    TooManyConnections(LimitReached),
    /// The head did not arrive in time.
    Timeout,
    /// The listener requires TLS, and the request came without it.
    PlainHttp,
}
