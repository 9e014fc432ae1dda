//! A response: status, headers in typed fields, body. Only this module turns them into a header map, so that services do not depend
//! on a version of HTTP.
//!
//! The headers are a copy of a template with the same fields. Inserting them one by one into an empty map hashes every name for
//! every response, and costs several times as much (docs/decisions.md has the figures).

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::thread::LocalKey;

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IterMut, LINK,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};

use super::Body;
use super::header::{
    DEPRECATION, JSON, LastValue, NO_STORE, NOSNIFF, RATE_LIMIT, RATE_REMAINING, RATE_RESET,
    REQUEST_ID, SUNSET, last_value, text,
};
use super::request_id::RequestId;

/// A response of a service. Boxed, because it passes through a dozen functions, each of which would copy it: this and the reference in
/// `dispatch` save 2.6 % of the instructions of a list request.
pub struct Response(Box<ResponseParts>);

/// What a response consists of. `X-Request-Id` is not a field: every response gets it.
#[derive(Default)]
pub struct ResponseParts {
    pub status: StatusCode,
    /// Whether the connection ends with this response. Ignored over HTTP/2, where only the stream ends.
    pub close: bool,
    /// Whether it is JSON that must not be stored (`no-store`).
    is_json: bool,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    pub rate_limit: Option<RateLimitHeaders>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    pub link: Option<HeaderValue>,
    /// `WWW-Authenticate`
    pub challenge: Option<&'static HeaderValue>,
    /// `Deprecation` and `Sunset`.
    pub deprecation: Option<&'static DeprecationHeaders>,
    /// Headers that few responses have.
    extra: Vec<(HeaderName, HeaderValue)>,
    pub body: Body,
}

#[derive(Clone, Copy, Debug)]
pub struct RateLimitHeaders {
    /// The limit that applies.
    pub limit: u32,
    /// The requests left in the window.
    pub remaining: u32,
    /// When the window ends, in Unix seconds.
    pub reset: i64,
}

/// The announcement that an operation will be removed: `Deprecation` and `Sunset`, as constants in separate templates.
pub struct DeprecationHeaders {
    since: HeaderValue,
    sunset: HeaderValue,
    templates: Templates,
}

impl DeprecationHeaders {
    /// Announces since when an operation has been deprecated, and when it will be removed.
    pub const fn new(since: HeaderValue, sunset: HeaderValue) -> Self {
        Self {
            since,
            sunset,
            templates: no_templates(),
        }
    }
}

/// The headers of all responses with the same fields: one for each combination of those in [`Response::template`].
type Templates = [OnceLock<HeaderMap>; 1 << TEMPLATE_FIELDS];
const TEMPLATE_FIELDS: usize = 5;

const fn no_templates() -> Templates {
    [const { OnceLock::new() }; 32]
}

impl Response {
    /// A response without a type, such as a redirect.
    pub fn new(status: StatusCode) -> Self {
        Self(Box::new(ResponseParts {
            status,
            ..ResponseParts::default()
        }))
    }

    /// A response with a JSON body that must not be stored (`no-store`).
    pub fn json(status: StatusCode, body: Bytes) -> Self {
        Self(Box::new(ResponseParts {
            status,
            is_json: true,
            body: body.into(),
            ..ResponseParts::default()
        }))
    }

    pub fn with_type(content_type: HeaderValue, body: Bytes) -> Self {
        let mut response = Self::new(StatusCode::OK).with(CONTENT_TYPE, content_type);
        response.body = body.into();
        response
    }

    /// Adds a header that few responses have.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.add(name, value);
        self
    }

    pub fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.extra.push((name, value));
    }

    pub(super) fn into_parts(mut self, id: &RequestId) -> (HeaderMap, Body) {
        let mut headers = self.template().clone();
        self.fill(&mut headers, id);
        for (name, value) in self.extra.drain(..) {
            // A file of a page has a `Vary`, and CORS adds one.
            headers.append(name, value);
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        (headers, std::mem::take(&mut self.body))
    }

    /// Sets the headers that differ. A map promises no order, so the name of an entry decides; but they usually are in the order of
    /// the template, and then no name has to be hashed.
    fn fill(&mut self, headers: &mut HeaderMap, id: &RequestId) {
        let mut placeholders = Placeholders {
            entries: headers.iter_mut(),
            left_over: Vec::new(),
        };
        placeholders.fill(text::REQUEST_ID, id.value());
        if let Some(rate) = self.rate_limit {
            let limit = repeated(&LAST_LIMIT, rate.limit.into());
            placeholders.fill(text::RATE_LIMIT, limit);
            placeholders.fill(text::RATE_REMAINING, rate.remaining.into());
            placeholders.fill(text::RATE_RESET, repeated(&LAST_RESET, rate.reset));
        }
        if let Some(seconds) = self.retry_after {
            placeholders.fill("retry-after", seconds.into());
        }
        if let Some(link) = self.link.take() {
            placeholders.fill("link", link);
        }
        if let Some(challenge) = self.challenge {
            placeholders.fill("www-authenticate", challenge.clone());
        }
        for (name, value) in placeholders.left_over {
            headers.insert(name, value);
        }
    }

    /// The headers of all responses with the same fields, with empty values where they differ. Those come first.
    fn template(&self) -> &'static HeaderMap {
        static TEMPLATES: Templates = no_templates();
        let fields: [bool; TEMPLATE_FIELDS] = [
            self.is_json,
            self.rate_limit.is_some(),
            self.retry_after.is_some(),
            self.link.is_some(),
            self.challenge.is_some(),
        ];
        let shape = fields.iter().enumerate().fold(0, |shape, (bit, is_there)| {
            shape | usize::from(*is_there) << bit
        });
        let templates = match self.deprecation {
            Some(deprecation) => &deprecation.templates,
            None => &TEMPLATES,
        };
        templates[shape].get_or_init(|| {
            let [is_json, rate, retry_after, link, challenge] = fields;
            let names = [
                (true, REQUEST_ID),
                (rate, RATE_LIMIT),
                (rate, RATE_REMAINING),
                (rate, RATE_RESET),
                (retry_after, RETRY_AFTER),
                (link, LINK),
                (challenge, WWW_AUTHENTICATE),
            ];
            let constants = [
                (is_json, CONTENT_TYPE, JSON),
                (is_json, CACHE_CONTROL, NO_STORE),
                (true, X_CONTENT_TYPE_OPTIONS, NOSNIFF),
            ];
            let empty = HeaderValue::from_static("");
            let varying = names.map(|(is_there, name)| (is_there, name, empty.clone()));
            let all = varying.into_iter().chain(constants);
            let all = all.filter(|(is_there, ..)| *is_there);
            let deprecation = self.deprecation.into_iter().flat_map(|deprecation| {
                let DeprecationHeaders { since, sunset, .. } = deprecation;
                [(DEPRECATION, since.clone()), (SUNSET, sunset.clone())]
            });
            all.map(|(_, name, value)| (name, value))
                .chain(deprecation)
                .collect()
        })
    }
}

impl Deref for Response {
    type Target = ResponseParts;

    fn deref(&self) -> &ResponseParts {
        &self.0
    }
}

impl DerefMut for Response {
    fn deref_mut(&mut self) -> &mut ResponseParts {
        &mut self.0
    }
}

/// The headers of a response that are still to be filled.
struct Placeholders<'a> {
    entries: IterMut<'a, HeaderValue>,
    /// Values whose entries were not next.
    left_over: Vec<(&'static str, HeaderValue)>,
}

impl Placeholders<'_> {
    /// Sets the next entry, if it has this name. Inlined, so that the length of the name is known where it is compared, which saves
    /// 1.3 % of the instructions of a list request.
    #[inline(always)]
    fn fill(&mut self, name: &'static str, value: HeaderValue) {
        match self.entries.next() {
            Some((next, entry)) if next.as_str() == name => *entry = value,
            _ => self.left_over.push((name, value)),
        }
    }
}

const fn zero() -> LastValue<i64> {
    RefCell::new((0, HeaderValue::from_static("0")))
}

thread_local! {
    static LAST_LIMIT: LastValue<i64> = const { zero() };
    static LAST_RESET: LastValue<i64> = const { zero() };
}

/// A number that many responses have in common, as a header value: a limit belongs to a plan, and a window ends for all keys at the
/// same time. New values would take 2 % of the instructions of a list request.
fn repeated(last: &'static LocalKey<LastValue<i64>>, number: i64) -> HeaderValue {
    last_value(last, |of| *of == number, || (number, number.into()))
}

#[cfg(test)]
mod tests {
    use http::header::LOCATION;

    use super::*;

    static ANNOUNCEMENT: DeprecationHeaders = DeprecationHeaders::new(
        HeaderValue::from_static("since"),
        HeaderValue::from_static("sunset"),
    );
    static CHALLENGE: HeaderValue = HeaderValue::from_static("challenge");

    #[test]
    fn every_field_becomes_its_own_header() {
        for shape in 0..64_u32 {
            let has = |bit: u32| shape & 1 << bit != 0;
            let mut response = match has(0) {
                true => Response::json(StatusCode::OK, Bytes::new()),
                false => Response::new(StatusCode::FOUND),
            };
            response.rate_limit = has(1).then_some(RateLimitHeaders {
                limit: 60,
                remaining: 59,
                reset: 120,
            });
            response.retry_after = has(2).then_some(7);
            response.link = has(3).then_some(HeaderValue::from_static("<x>"));
            response.challenge = has(4).then_some(&CHALLENGE);
            response.deprecation = has(5).then_some(&ANNOUNCEMENT);
            let expected = [
                (true, "x-request-id", "id"),
                (true, "x-content-type-options", "nosniff"),
                (true, "location", "/x"),
                (has(0), "content-type", "application/json"),
                (has(0), "cache-control", "no-store"),
                (has(1), "x-ratelimit-limit", "60"),
                (has(1), "x-ratelimit-remaining", "59"),
                (has(1), "x-ratelimit-reset", "120"),
                (has(2), "retry-after", "7"),
                (has(3), "link", "<x>"),
                (has(4), "www-authenticate", "challenge"),
                (has(5), "deprecation", "since"),
                (has(5), "sunset", "sunset"),
            ];
            let expected: HeaderMap = expected
                .into_iter()
                .filter(|(is_there, ..)| *is_there)
                .map(|(_, name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect();
            let response = response.with(LOCATION, HeaderValue::from_static("/x"));
            let (headers, _) = response.into_parts(&RequestId::new(b"id"));
            assert_eq!(headers, expected, "{shape:b}");
        }
    }

    #[test]
    fn a_response_that_closes_its_connection_has_connection_close() {
        let mut response = Response::new(StatusCode::OK);
        response.close = true;
        let (headers, _) = response.into_parts(&RequestId::new(b"id"));
        assert_eq!(headers[CONNECTION], "close");
    }

    #[test]
    fn values_find_their_headers_by_name_in_whatever_order_a_map_has_them() {
        let response = || {
            let mut response = Response::json(StatusCode::OK, Bytes::new());
            response.retry_after = Some(7);
            response.link = Some(HeaderValue::from_static("<x>"));
            response.rate_limit = Some(RateLimitHeaders {
                limit: 60,
                remaining: 59,
                reset: 120,
            });
            response
        };
        let id = RequestId::new(b"id");
        let (expected, _) = response().into_parts(&id);
        let headers: Vec<_> = response().template().iter().collect();
        for rotation in 0..headers.len() {
            for reversed in [false, true] {
                let mut order = headers.clone();
                order.rotate_left(rotation);
                if reversed {
                    order.reverse();
                }
                let pairs = order.into_iter();
                let mut map: HeaderMap = pairs
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                response().fill(&mut map, &id);
                assert_eq!(map, expected);
            }
        }
    }

    #[test]
    fn a_repeated_value_is_that_of_its_number_whatever_came_before() {
        for number in [0, 60, 60, 1, 60, 0, i64::MAX] {
            assert_eq!(repeated(&LAST_LIMIT, number), number.to_string());
        }
    }
}
