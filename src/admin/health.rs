//! Is the process alive, and can it serve? Both cheap, neither logged nor limited.

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::json;

use crate::api::{Answer, ApiError, answer};
use crate::limit::redis::Health;
use crate::store::Store;

/// `/livez`: looks at nothing but the process.
pub(crate) fn live() -> Answer {
    answer::json(StatusCode::OK, Bytes::from_static(b"{\"status\":\"live\"}"))
}

/// `/readyz`: looks at what the service needs. With `verbose` it says what that is.
pub(crate) async fn ready(
    store: &Store,
    redis: Option<&Health>,
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
    if !verbose {
        let body = Bytes::from_static(b"{\"status\":\"ready\"}");
        return Ok(answer::json(StatusCode::OK, body));
    }
    // Reads go on while nothing can be written: worse, but ready.
    let writer = store.write_trouble().unwrap_or("ready");
    let mut checks = json!({"store": "ready", "writer": writer});
    if let Some(redis) = redis {
        // Without it this node goes on with its own counters: worse, but ready.
        let word = if redis.is_well() { "ready" } else { "degraded" };
        checks["redis"] = word.into();
    }
    let body = json!({"status": "ready", "checks": checks}).to_string();
    Ok(answer::json(StatusCode::OK, body.into()))
}
