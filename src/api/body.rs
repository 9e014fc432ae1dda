//! Reading a JSON body: its type, its size, and a deadline for all of it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::error::ApiError;
use crate::http::RequestBody;
use crate::pet::BodyProblems;

/// The most bytes a body may have.
const MOST: usize = 16 * 1024;

/// Reads the whole body, within `deadline` in all: one that resets with every byte could be kept open without end.
pub(super) async fn read_json(
    headers: &HeaderMap,
    body: &mut RequestBody,
    deadline: Duration,
) -> Result<Bytes, ApiError> {
    if !is_json(headers) {
        return Err(ApiError::UnsupportedMediaType);
    }
    if !is_identity(headers) {
        return Err(ApiError::ContentEncoding);
    }
    if body.announced() > MOST as u64 {
        return Err(ApiError::BodyTooLarge);
    }
    match tokio::time::timeout(deadline, collect(body)).await {
        Ok(result) => result,
        Err(_) => Err(ApiError::RequestTimeout),
    }
}

async fn collect(body: &mut RequestBody) -> Result<Bytes, ApiError> {
    let mut collected = BytesMut::new();
    // A client that broke off will hardly read what it is told.
    while let Some(data) = body.next().await.map_err(|_| BodyProblems::broken_off())? {
        if collected.len() + data.len() > MOST {
            return Err(ApiError::BodyTooLarge);
        }
        if collected.is_empty() {
            if body.is_read() {
                return Ok(data);
            }
            // Once, and not twice as much as it needs.
            let rest = usize::try_from(body.announced()).unwrap_or(MOST);
            collected.reserve(data.len() + rest.min(MOST));
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.freeze())
}

/// Neither compressed nor otherwise encoded.
fn is_identity(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// `application/json`, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else {
        return false;
    };
    let value = value.as_bytes();
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
    essence
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/json")
}
