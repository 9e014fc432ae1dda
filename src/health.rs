//! Health of the server: is the process alive, and can it serve? Both responses are cheap, and neither logged nor limited.

mod readiness;

pub(crate) use readiness::{Check, Readiness, State};

use bytes::Bytes;
use http::StatusCode;

use crate::api::ApiError;
use crate::http::Response;
use readiness::Page;

/// `/livez`: looks at nothing but the process.
pub(crate) fn live() -> Response {
    Response::json(StatusCode::OK, Bytes::from_static(b"{\"status\":\"live\"}"))
}

/// `/readyz`: what background work has found. With `verbose` each check is listed.
pub(crate) fn ready(readiness: &Readiness, query: Option<&str>) -> Result<Response, ApiError> {
    let verbose = query.is_some_and(|query| {
        query
            .split('&')
            .any(|pair| pair.split('=').next() == Some("verbose"))
    });
    match readiness.page(verbose) {
        Page::Ready(body) => Ok(Response::json(StatusCode::OK, body)),
        Page::NotReady(message) => Err(ApiError::NotReady(message)),
    }
}
