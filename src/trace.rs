//! Spans of a request, for OpenTelemetry. They exist only in builds with the feature `otel`: in all others the types are empty and
//! their methods do nothing, so that they cost nothing. No span contains a key or a query string, or a header other than
//! `X-Request-Id`, the trace context and, from a trusted proxy, the client's address and scheme.

#[cfg(not(feature = "otel"))]
mod none;
#[cfg(feature = "otel")]
mod spans;

#[cfg(not(feature = "otel"))]
pub(crate) use none::{CommitSpan, QuerySpan, RequestSpan, dropped, shut_down};
#[cfg(feature = "otel")]
pub(crate) use spans::{CommitSpan, Dropped, QuerySpan, RequestSpan, dropped, install, shut_down};

use std::net::IpAddr;

/// The name of all methods that are not known: what a client sends must not fill the log or the metrics.
pub(crate) const OTHER_METHOD: &str = "other";

/// A request whose span begins.
#[cfg_attr(
    not(feature = "otel"),
    expect(dead_code, reason = "there are no spans")
)]
pub(crate) struct NewRequest<'a> {
    /// `traceparent`, if there is exactly one.
    pub(crate) traceparent: Option<&'a [u8]>,
    /// `tracestate`, with all values in one list.
    pub(crate) tracestate: Vec<u8>,
    /// As in the log: [`OTHER_METHOD`] if it is not known.
    pub(crate) method: &'static str,
    /// The template of the path, such as `/v1/pets/{petId}`.
    pub(crate) route: Option<&'static str>,
    /// The path, if it cannot contain a misplaced secret.
    pub(crate) path: Option<&'a str>,
    pub(crate) https: bool,
    pub(crate) client: IpAddr,
    pub(crate) id: &'a str,
}

/// What a query is sent to: `db.system.name` of its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseSystem {
    Sqlite,
    Postgres,
    Redis,
}
