//! The head of a request, with the headers that services read.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Uri, Version};

/// Whether a handler of requests that have a body uses this header. A large head is reduced to these while its body arrives.
fn is_needed_with_body(name: &HeaderName) -> bool {
    match name.as_str() {
        // The fields of a `Head`.
        "host" | "origin" | "authorization" | "content-type" | "content-encoding"
        | "transfer-encoding" | "idempotency-key" | "x-request-id" | "x-forwarded-for"
        | "x-forwarded-proto" => true,
        // Others, which are looked up by their names.
        "accept" | "access-control-request-method" | "cookie" | "sec-fetch-site" => true,
        #[cfg(feature = "otel")]
        "traceparent" | "tracestate" => true,
        _ => false,
    }
}

/// Heads up to this size in bytes are not reduced.
const MAX_SMALL_HEAD_BYTES: usize = 2 * 1024;

/// The head of a request. Without `Debug`, because it holds secrets.
pub struct Head<'a> {
    pub method: &'a Method,
    /// The path, still percent-encoded.
    pub path: &'a str,
    /// The query, without the `?`.
    pub query: Option<&'a str>,
    /// Bytes of path and query.
    pub target_length: usize,
    /// The authority of a target in absolute form, or `:authority` in HTTP/2.
    pub authority: Option<&'a str>,
    /// Whether the version of HTTP requires a `Host`: in HTTP/2, `:authority` replaces it.
    pub requires_host: bool,
    pub host: Field<'a>,
    /// The first `Origin`. Browsers send at most one.
    pub origin: Option<&'a [u8]>,
    pub authorization: Field<'a>,
    pub content_type: Field<'a>,
    /// Whether `Content-Encoding` is present and not `identity`.
    pub has_content_encoding: bool,
    pub transfer_encoding: Field<'a>,
    pub idempotency_key: Field<'a>,
    /// `X-Request-Id`
    pub request_id: Field<'a>,
    /// The last `X-Forwarded-Proto`.
    pub forwarded_proto: Option<&'a [u8]>,
    /// Whether there is an `X-Forwarded-For`.
    pub is_forwarded: bool,
    headers: &'a HeaderMap,
}

/// A header that may be sent at most once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    Absent,
    One(&'a [u8]),
    Several,
}

impl<'a> Field<'a> {
    fn add(&mut self, value: &'a [u8]) {
        *self = match self {
            Self::Absent => Self::One(value),
            _ => Self::Several,
        };
    }
}

impl<'a> Head<'a> {
    /// Reads a head. One pass over all headers is cheaper than a lookup of each, which would hash every name.
    pub fn new(parts: &'a Parts) -> Self {
        let target = parts.uri.path_and_query();
        let mut head = Self {
            method: &parts.method,
            path: parts.uri.path(),
            query: parts.uri.query(),
            target_length: target.map_or(0, |target| target.as_str().len()),
            authority: parts.uri.authority().map(|authority| authority.as_str()),
            requires_host: match parts.version {
                Version::HTTP_11 => true,
                Version::HTTP_2 => parts.uri.authority().is_none(),
                _ => false,
            },
            host: Field::Absent,
            origin: None,
            authorization: Field::Absent,
            content_type: Field::Absent,
            has_content_encoding: false,
            transfer_encoding: Field::Absent,
            idempotency_key: Field::Absent,
            request_id: Field::Absent,
            forwarded_proto: None,
            is_forwarded: false,
            headers: &parts.headers,
        };
        for (name, value) in &parts.headers {
            let value = value.as_bytes();
            match name.as_str() {
                "host" => head.host.add(value),
                "origin" => head.origin = head.origin.or(Some(value)),
                "authorization" => head.authorization.add(value),
                "content-type" => head.content_type.add(value),
                "content-encoding" => {
                    head.has_content_encoding |= !value.eq_ignore_ascii_case(b"identity");
                }
                "transfer-encoding" => head.transfer_encoding.add(value),
                "idempotency-key" => head.idempotency_key.add(value),
                "x-request-id" => head.request_id.add(value),
                "x-forwarded-for" => head.is_forwarded = true,
                "x-forwarded-proto" => head.forwarded_proto = Some(value),
                _ => {}
            }
        }
        head
    }

    /// Whether a proxy may disagree about where the body ends: the `Transfer-Encoding` is not exactly one `chunked`. hyper accepts
    /// any list that ends in `chunked`.
    pub fn has_ambiguous_framing(&self) -> bool {
        match self.transfer_encoding {
            Field::Absent => false,
            Field::One(encoding) => !encoding.eq_ignore_ascii_case(b"chunked"),
            Field::Several => true,
        }
    }

    /// All values of a header, in the order in which they were sent.
    pub fn all(&self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a> {
        self.headers.get_all(name).iter().map(HeaderValue::as_bytes)
    }
}

/// Reduces a large head to copies of the headers that are still needed when the body has arrived. Headers are slices of the buffer that
/// the head arrived in, so each of them keeps all 16 KiB in memory, and a map of a hundred headers is large, too.
pub(super) fn compact(parts: &mut Parts) {
    let of_headers = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    let size: usize = parts.headers.iter().map(of_headers).sum();
    let target = parts.uri.path_and_query();
    if size + target.map_or(0, |target| target.as_str().len()) <= MAX_SMALL_HEAD_BYTES {
        return;
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &parts.headers {
        // It was parsed as a value before, so this cannot fail.
        if is_needed_with_body(name)
            && let Ok(copy) = HeaderValue::from_bytes(value.as_bytes())
        {
            headers.append(name.clone(), copy);
        }
    }
    parts.headers = headers;
    if let Ok(copy) = parts.uri.to_string().parse::<Uri>() {
        parts.uri = copy;
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::http::header::FORWARDED_FOR;

    #[test]
    fn a_header_that_is_sent_twice_is_not_taken_for_one() {
        let request = Request::get("http://a.example/x%20y?z")
            .header("host", "b.example")
            .header("origin", "http://c.example")
            .header("origin", "http://d.example")
            .header("authorization", "one")
            .header("authorization", "two")
            .header("content-encoding", "identity")
            .header("x-forwarded-proto", "http")
            .header("x-forwarded-proto", "https");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let head = Head::new(&parts);
        assert_eq!((head.path, head.query), ("/x%20y", Some("z")));
        assert_eq!((head.target_length, head.authority), (8, Some("a.example")));
        assert!(head.host == Field::One(b"b.example") && head.authorization == Field::Several);
        assert!(
            head.request_id == Field::Absent && !head.has_content_encoding && !head.is_forwarded
        );
        assert_eq!(head.origin, Some(b"http://c.example".as_slice()));
        assert_eq!(head.forwarded_proto, Some(b"https".as_slice()));
    }

    #[test]
    fn a_large_head_keeps_what_is_read_and_a_small_one_all() {
        for (length, kept) in [(10, 5), (3_000, 4)] {
            let request = Request::post("/v1/pets?x=%20y")
                .header("host", "a.example")
                .header("x-forwarded-for", "1.1.1.1")
                .header("x-forwarded-for", "2.2.2.2")
                .header("idempotency-key", "abc")
                .header("x-other", "x".repeat(length));
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            compact(&mut parts);
            assert_eq!(parts.headers.len(), kept);
            assert_eq!(parts.uri, "/v1/pets?x=%20y");
            let head = Head::new(&parts);
            assert!(head.idempotency_key == Field::One(b"abc") && head.is_forwarded);
            let hops: Vec<_> = head.all(&FORWARDED_FOR).collect();
            assert_eq!(hops, [b"1.1.1.1", b"2.2.2.2"]);
        }
    }

    #[test]
    fn the_headers_that_requests_with_a_body_need_are_kept_in_a_large_head() {
        let all = |length| {
            let mut request = Request::post("/").header("x-other", "x".repeat(length));
            for name in [
                "accept",
                "access-control-request-method",
                "sec-fetch-site",
                "cookie",
                "origin",
                "host",
                "authorization",
                "content-type",
                "content-encoding",
                "transfer-encoding",
                "idempotency-key",
                "x-request-id",
                "x-forwarded-for",
                "x-forwarded-proto",
            ] {
                request = request.header(name, "x");
            }
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            compact(&mut parts);
            let head = Head::new(&parts);
            let fields = [
                head.host,
                head.authorization,
                head.content_type,
                head.transfer_encoding,
                head.idempotency_key,
                head.request_id,
            ];
            assert!(fields.iter().all(|field| *field == Field::One(b"x")));
            assert!(head.has_content_encoding && head.is_forwarded);
            assert!(head.origin.is_some() && head.forwarded_proto.is_some());
            parts.headers.len()
        };
        assert_eq!(all(3_000), all(10) - 1);
    }
}
