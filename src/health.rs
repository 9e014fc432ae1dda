//! Liveness and readiness of the server: cheap, neither logged nor rate-limited.

mod readiness;

pub(crate) use readiness::{Check, CheckState, Readiness};

use bytes::Bytes;
use http::StatusCode;

use crate::api::ApiError;
use crate::http::Response;

/// `/livez`: whether the process is alive.
pub(crate) fn liveness() -> Response {
    Response::json(StatusCode::OK, Bytes::from_static(b"{\"status\":\"live\"}"))
}

/// `/readyz`: the result of the last checks of the background task. With `verbose` each check is listed.
pub(crate) fn readiness(readiness: &Readiness, query: Option<&str>) -> Result<Response, ApiError> {
    let verbose = query.is_some_and(|query| {
        query
            .split('&')
            .any(|pair| pair.split('=').next() == Some("verbose"))
    });
    let body = readiness.body(verbose)?;
    Ok(Response::json(StatusCode::OK, body))
}
