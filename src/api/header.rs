//! The names of our own headers, and values that never change. The one place that spells them.

use hyper::header::{HeaderName, HeaderValue};

/// The names of those that every response has, as text that is known when this is compiled: comparing with it costs next to nothing.
pub mod text {
    #![expect(missing_docs, reason = "said below, of the headers")]
    pub const RATE_LIMIT: &str = "x-ratelimit-limit";
    pub const RATE_REMAINING: &str = "x-ratelimit-remaining";
    pub const RATE_RESET: &str = "x-ratelimit-reset";
    pub const REQUEST_ID: &str = "x-request-id";
}

/// The limit that applies.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static(text::RATE_LIMIT);
/// The requests left in the window.
pub const RATE_REMAINING: HeaderName = HeaderName::from_static(text::RATE_REMAINING);
/// When the window ends, in Unix seconds.
pub const RATE_RESET: HeaderName = HeaderName::from_static(text::RATE_RESET);
/// Names one request in answers and in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static(text::REQUEST_ID);
/// Makes the retry of a creation safe.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer was given before.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Since when an operation is deprecated (RFC 9745).
pub const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// When it ends (RFC 8594).
pub const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// `application/json`
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// `no-store`
pub const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// `nosniff`
pub const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// `true`
pub const TRUE: HeaderValue = HeaderValue::from_static("true");

/// A value made of text of ours, which is always visible ASCII.
pub fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}
