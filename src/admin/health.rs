//! Is the process alive, and can it serve? Both cheap, neither logged nor limited.

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::json;

use crate::api::{Answer, ApiError, answer};
use crate::store::Store;

/// `/livez`: looks at nothing but the process.
pub(crate) fn live() -> Answer {
    answer::json(StatusCode::OK, Bytes::from_static(b"{\"status\":\"live\"}"))
}

/// `/readyz`: looks at what the service needs. With `verbose` it says what that is.
pub(crate) async fn ready(
    store: &Store,
    stopping: bool,
    query: Option<&str>,
) -> Result<Answer, ApiError> {
    if stopping {
        return Err(ApiError::Unavailable {
            cause: "the server is stopping".into(),
        });
    }
    store.ready().await?;
    let verbose = query.is_some_and(|query| {
        query
            .split('&')
            .any(|pair| pair.split('=').next() == Some("verbose"))
    });
    Ok(answer::json(
        StatusCode::OK,
        if verbose {
            json!({"status": "ready", "checks": {"store": "ready", "writer": "ready"}})
                .to_string()
                .into()
        } else {
            Bytes::from_static(b"{\"status\":\"ready\"}")
        },
    ))
}
