//! Answers where there is no request for hyper to answer: too many connections, a head that never ended.

use crate::api::{ApiError, header};

/// A whole HTTP/1.1 answer that ends the connection.
pub(super) fn answer(error: &ApiError, request_id: &str) -> Vec<u8> {
    let answer = error.answer();
    let body = error.body();
    let mut raw = format!("HTTP/1.1 {}\r\n", answer.status()).into_bytes();
    let mut add = |name: &str, value: &[u8]| {
        raw.extend_from_slice(name.as_bytes());
        raw.extend_from_slice(b": ");
        raw.extend_from_slice(value);
        raw.extend_from_slice(b"\r\n");
    };
    for (name, value) in answer.headers() {
        if name != hyper::header::CONNECTION {
            add(name.as_str(), value.as_bytes());
        }
    }
    add(header::REQUEST_ID.as_str(), request_id.as_bytes());
    add("content-length", body.len().to_string().as_bytes());
    add("connection", b"close");
    raw.extend_from_slice(b"\r\n");
    raw.extend_from_slice(&body);
    raw
}
