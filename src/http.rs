//! Transport: listeners, accept loops, connections, timeouts, drain, request IDs, and the types of requests and responses.
//! Serves anything that implements [`Service`]. It has no routes, keys or store, and is the only module that uses hyper.

mod accept;
mod activity;
mod asset;
mod body;
#[cfg(feature = "otel")]
mod client;
mod connection;
mod connections;
mod date;
mod dispatch;
mod head;
pub mod header;
mod held;
mod http2;
mod linger;
mod listen;
mod open_files;
mod outage;
mod panic;
mod progress;
mod raw;
mod rejection;
mod request_body;
mod request_id;
mod response;
mod service;
mod stream;
mod timeouts;
mod tls;

pub use accept::{DRAIN_TIMEOUT, accept};
pub use asset::{Asset, NamedFile, with_hashed_names};
pub use body::Body;
#[cfg(feature = "otel")]
pub(crate) use client::send;
pub use connections::{ConnectionLimits, Connections, Maximum};
pub use head::{Field, Head};
pub use listen::{Listener, listen, listen_for_workers};
pub use open_files::raise_open_file_limit;
pub use panic::catch_panic;
pub use rejection::{ReachedLimit, Rejection};
pub use request_body::RequestBody;
pub use request_id::RequestId;
pub use response::{DeprecationHeaders, RateLimitHeaders, Response};
pub use service::{Exchange, Service};
pub use timeouts::Timeouts;
pub use tls::{Reload, Tls};

#[cfg(test)]
mod tests;
