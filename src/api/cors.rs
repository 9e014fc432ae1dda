//! Cross-origin requests (CORS): the origins whose pages may call the API from a browser, and the response to a preflight.

use std::str::FromStr;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    CACHE_CONTROL, HeaderValue, VARY,
};
use http::{Method, StatusCode, Uri};

use super::authority::is_authority;
use crate::http::{Head, Response, header};

/// The request headers that a page may send.
const REQUEST_HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Content-Type, Idempotency-Key, X-Request-Id");

/// The response headers that a page may read.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, Link, Location, \
     Deprecation, Sunset, X-Request-Id, Idempotent-Replayed",
);

/// How long a browser may keep the response to a preflight: a day, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");

/// An origin as browsers send it, such as `https://shop.example`, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(HeaderValue);

const INVALID_ORIGIN: &str = "must be * or an origin: scheme, host and, unless it is the default, the port, such as https://shop.example";

impl FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text == "*" {
            return Ok(Self(ANY_ORIGIN));
        }
        let text = text.to_ascii_lowercase();
        let uri: Uri = text.parse().map_err(|_| INVALID_ORIGIN)?;
        let (scheme, host) = match (uri.scheme_str(), uri.host()) {
            (Some(scheme), Some(host)) => (scheme, host),
            _ => return Err(INVALID_ORIGIN),
        };
        let port = match (scheme, uri.port_u16()) {
            // Browsers omit the default port, so an origin with it would never match.
            ("http", Some(80)) | ("https", Some(443)) => return Err(INVALID_ORIGIN),
            (_, Some(port)) => format!(":{port}"),
            (_, None) => String::new(),
        };
        // No path, query or user, no port that browsers write in another way, and no pattern.
        if text != format!("{scheme}://{host}{port}")
            || !is_authority(host.as_bytes())
            || host.contains('*')
        {
            return Err(INVALID_ORIGIN);
        }
        Ok(Self(header::constant(text)))
    }
}

/// The origins that are allowed. Without any, no response has CORS headers.
#[derive(Clone, Debug, Default)]
pub struct Cors(Vec<Origin>);

impl Cors {
    pub const fn new(origins: Vec<Origin>) -> Self {
        Self(origins)
    }

    /// Whether a request is a preflight, which has no key.
    pub(crate) fn is_preflight(&self, head: &Head<'_>) -> bool {
        !self.0.is_empty()
            && head.method == Method::OPTIONS
            && head.origin.is_some()
            && head.all(&ACCESS_CONTROL_REQUEST_METHOD).next().is_some()
    }

    /// The response to a preflight for a path with these methods.
    pub(crate) fn preflight(&self, head: &Head<'_>, methods: &'static str) -> Response {
        let mut response =
            Response::new(StatusCode::NO_CONTENT).with(CACHE_CONTROL, header::NO_STORE);
        if self.allowed(head).is_some() {
            let methods = HeaderValue::from_static(methods);
            response.add(ACCESS_CONTROL_ALLOW_METHODS, methods);
            response.add(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
            response.add(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
        response
    }

    /// Allows the page that sent a request to read its response, if its origin is allowed.
    pub(crate) fn allow(&self, head: &Head<'_>, response: &mut Response) {
        if !self.0.is_empty() {
            Self::add_headers(self.allowed(head), response);
        }
    }

    /// If all origins are allowed, allows pages to read the response to a request that was not read, and whose origin is therefore
    /// unknown.
    pub(crate) fn allow_unknown(&self, response: &mut Response) {
        if !self.0.is_empty() {
            Self::add_headers(
                self.0.iter().find(|origin| origin.0 == ANY_ORIGIN),
                response,
            );
        }
    }

    fn add_headers(origin: Option<&Origin>, response: &mut Response) {
        if let Some(Origin(origin)) = origin {
            response.add(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            response.add(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        }
        response.add(VARY, HeaderValue::from_static("Origin"));
    }

    fn allowed(&self, head: &Head<'_>) -> Option<&Origin> {
        let origin = head.origin?;
        let is_allowed =
            |allowed: &&Origin| allowed.0 == ANY_ORIGIN || allowed.0.as_bytes() == origin;
        self.0.iter().find(is_allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_browser_sends_or_it_is_rejected() {
        for (text, origin) in [
            ("*", "*"),
            ("https://shop.example", "https://shop.example"),
            ("HTTP://Shop.Example:8081", "http://shop.example:8081"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("capacitor://localhost", "capacitor://localhost"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().0, origin);
        }
        for text in [
            "",
            "null",
            "shop.example",
            "https://",
            "https://shop.example/",
            "https://shop.example/shop",
            "https://shop.example?x",
            "https://me@shop.example",
            "https://shop.example:443",
            "http://shop.example:80",
            "https://*.example",
            "https://shop.example:",
            "https://shop.example:99999",
            "https://shop.example:08443",
            "https://[zz]",
            "https://shop.example\n",
            "https://shop example",
            "https://é.example",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text:?}");
        }
    }
}
