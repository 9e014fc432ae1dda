//! Names of headers that the `http` crate does not define, and constant and repeated values.

use std::cell::RefCell;
use std::thread::LocalKey;

use http::header::{HeaderName, HeaderValue};

/// The names that nearly every response has, as text: comparing with it costs next to nothing.
pub(super) mod text {
    pub(in crate::http) const RATE_LIMIT: &str = "x-ratelimit-limit";
    pub(in crate::http) const RATE_REMAINING: &str = "x-ratelimit-remaining";
    pub(in crate::http) const RATE_RESET: &str = "x-ratelimit-reset";
    pub(in crate::http) const REQUEST_ID: &str = "x-request-id";
}

pub const RATE_LIMIT: HeaderName = HeaderName::from_static(text::RATE_LIMIT);
pub const RATE_REMAINING: HeaderName = HeaderName::from_static(text::RATE_REMAINING);
/// When the window ends, in Unix seconds.
pub const RATE_RESET: HeaderName = HeaderName::from_static(text::RATE_RESET);
/// The ID of a request, in its response and in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static(text::REQUEST_ID);
/// Marks a response that repeats an earlier one.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Since when an operation has been deprecated (RFC 9745).
pub const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// When an operation is removed (RFC 8594).
pub const SUNSET: HeaderName = HeaderName::from_static("sunset");
/// The addresses that a request came through, as proxies write them.
pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
pub const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
pub const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
pub const TRUE: HeaderValue = HeaderValue::from_static("true");

/// A header value from text that is known to be visible ASCII.
pub fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

/// A header value that is never freed: copies of it share no reference count, which all cores would write.
pub fn constant(text: String) -> HeaderValue {
    HeaderValue::from_static(text.leak())
}

/// The last value of a header on this thread, and what it was made of. Most responses repeat it: a copy is a reference count, a new
/// value is an allocation.
pub type LastValue<K> = RefCell<(K, HeaderValue)>;

/// Returns the last value, if it was made from the same key, as `is_same` decides, or a new one, which replaces it.
#[inline]
pub fn last_value<K>(
    last: &'static LocalKey<LastValue<K>>,
    is_same: impl FnOnce(&K) -> bool,
    make: impl FnOnce() -> (K, HeaderValue),
) -> HeaderValue {
    last.with_borrow_mut(|last| {
        if !is_same(&last.0) {
            *last = make();
        }
        last.1.clone()
    })
}
