//! Answers where there is no request for hyper to answer, as bytes of our own.

use std::net::IpAddr;

use hyper::header::CONNECTION;

use super::answers::Answers;
use crate::api::ApiError;

/// A whole HTTP/1.1 answer that ends the connection.
pub(super) fn unasked(answers: &impl Answers, error: &ApiError, peer: IpAddr) -> Vec<u8> {
    let now = answers.now();
    let answer = answers.unasked(error, peer);
    let body = error.body();
    let mut raw = format!("HTTP/1.1 {}\r\n", answer.status()).into_bytes();
    let mut add = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            raw.extend_from_slice(part);
        }
    };
    for (name, value) in answer
        .headers()
        .iter()
        .filter(|(name, _)| *name != CONNECTION)
    {
        add(name.as_str(), value.as_bytes());
    }
    add("date", now.http_date().as_bytes());
    add("content-length", body.len().to_string().as_bytes());
    add("connection", b"close");
    raw.extend_from_slice(b"\r\n");
    raw.extend_from_slice(&body);
    raw
}
