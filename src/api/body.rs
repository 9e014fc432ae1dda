//! Reading a JSON body: its type, its size, and a deadline for all of it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::error::ApiError;
use super::operation::MAX_BODY_BYTES;
use crate::http::{Field, Head, RequestBody};
use crate::pet::InvalidBody;

/// Reads the whole body within `timeout`: a timeout per read would allow a client to send without end.
pub(crate) async fn read_json(
    head: &Head<'_>,
    body: &mut RequestBody,
    timeout: Duration,
) -> Result<Bytes, ApiError> {
    if !is_json(head.content_type) {
        return Err(ApiError::UnsupportedMediaType);
    }
    if head.has_content_encoding {
        return Err(ApiError::ContentEncoding);
    }
    if body.min_remaining() > MAX_BODY_BYTES as u64 {
        return Err(ApiError::BodyTooLarge);
    }
    let collected = tokio::time::timeout(timeout, collect(body)).await;
    collected.unwrap_or(Err(ApiError::RequestTimeout))
}

async fn collect(body: &mut RequestBody) -> Result<Bytes, ApiError> {
    let mut collected = BytesMut::new();
    // A client that disconnected will not read the response.
    while let Some(data) = body.next().await.map_err(|_| InvalidBody::incomplete())? {
        if collected.len() + data.len() > MAX_BODY_BYTES {
            return Err(ApiError::BodyTooLarge);
        }
        if collected.is_empty() {
            if body.is_read() {
                return Ok(data);
            }
            // One allocation of the right size.
            let rest = usize::try_from(body.min_remaining()).unwrap_or(MAX_BODY_BYTES);
            collected.reserve(data.len() + rest.min(MAX_BODY_BYTES));
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.freeze())
}

/// `application/json`, with or without parameters.
fn is_json(content_type: Field<'_>) -> bool {
    let Field::One(value) = content_type else {
        return false;
    };
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
    essence
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/json")
}
