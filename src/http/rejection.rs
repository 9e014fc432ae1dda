//! Requests that are not read.

/// Why a request was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// There are as many connections as there may be.
    TooManyConnections,
    /// The head did not arrive in time.
    Timeout,
}
