//! Responses without a request, written as HTTP/1.1.

use std::net::IpAddr;

use super::request_id::RequestIds;
use super::{Rejection, Service};

/// Returns the response to a client whose request is not read. It closes the connection.
pub(super) fn rejection(
    service: &impl Service,
    ids: &RequestIds,
    reason: Rejection,
    peer: IpAddr,
) -> Vec<u8> {
    let id = ids.next();
    let mut response = service.reject(reason, peer, &id);
    response.close = true;
    let mut raw = format!("HTTP/1.1 {}\r\n", response.status).into_bytes();
    let (headers, body) = response.into_parts(&id);
    let mut add = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            raw.extend_from_slice(part);
        }
    };
    for (name, value) in &headers {
        add(name.as_str(), value.as_bytes());
    }
    add("date", service.clock().now().http_date().as_bytes());
    add("content-length", body.bytes().len().to_string().as_bytes());
    raw.extend_from_slice(b"\r\n");
    raw.extend_from_slice(body.bytes());
    raw
}
