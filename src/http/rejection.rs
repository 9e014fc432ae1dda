//! Requests that are not read.

/// Why a request was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The connection limit is reached.
    TooManyConnections,
    /// The head did not arrive in time.
    Timeout,
    /// The listener requires TLS, and the request came without it.
    PlainHttp,
}
