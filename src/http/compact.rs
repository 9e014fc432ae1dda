//! A head of a request that is kept while its body arrives, without what nobody reads of it.
//!
//! hyper's headers are slices of the buffer that the head arrived in, so that one of them keeps all 16 KiB of it, and a map of a
//! hundred headers is large, too.

use hyper::Uri;
use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderName,
    HeaderValue, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;

/// The headers that a request with a body can have a meaning by. Those of a large head that are not here are not seen.
const READ: [HeaderName; 10] = [
    HOST,
    AUTHORIZATION,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    TRANSFER_ENCODING,
    EXPECT,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-proto"),
];

/// Bytes of a head that are not worth a copy.
const SMALL: usize = 2 * 1024;

/// Copies what is read of a large head, and lets go of the rest.
pub fn compact(head: &mut Parts) {
    let of_headers = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    let size: usize = head.headers.iter().map(of_headers).sum();
    let path = head
        .uri
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    if size + path <= SMALL {
        return;
    }
    let mut headers = HeaderMap::new();
    for name in READ {
        for value in head.headers.get_all(&name) {
            // What was a value once is one again.
            if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
                headers.append(name.clone(), copy);
            }
        }
    }
    head.headers = headers;
    if let Ok(copy) = head.uri.to_string().parse::<Uri>() {
        head.uri = copy;
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[test]
    fn a_large_head_keeps_what_is_read_and_a_small_one_all() {
        for (length, kept) in [(10, 5), (3_000, 4)] {
            let request = Request::post("/v1/pets?x=%20y")
                .header("host", "a.example")
                .header("x-forwarded-for", "1.1.1.1")
                .header("x-forwarded-for", "2.2.2.2")
                .header("idempotency-key", "abc")
                .header("x-other", "x".repeat(length));
            let (mut head, ()) = request.body(()).unwrap().into_parts();
            compact(&mut head);
            assert_eq!(head.headers.len(), kept);
            assert_eq!(head.uri, "/v1/pets?x=%20y");
            assert_eq!(head.headers["idempotency-key"], "abc");
            let hops: Vec<_> = head.headers.get_all("x-forwarded-for").iter().collect();
            assert_eq!(hops, ["1.1.1.1", "2.2.2.2"]);
        }
    }
}
