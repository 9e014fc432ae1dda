//! Reading a JSON body: its type, its size, and a deadline for all of it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};

use super::error::ApiError;
use crate::pet::BodyProblems;

/// The most bytes a body may have.
const MOST: usize = 16 * 1024;

/// How much of a body that is too large is read and thrown away, so that the caller has sent it all and hears the answer.
const THROWN_AWAY: usize = 1024 * 1024;

/// Reads the whole body, within `deadline` in all: one that resets with every byte could be kept open for ever.
pub(super) async fn read_json(
    headers: &HeaderMap,
    mut body: Incoming,
    deadline: Duration,
) -> Result<Bytes, ApiError> {
    if !is_json(headers) {
        return Err(ApiError::UnsupportedMediaType);
    }
    if !is_identity(headers) {
        return Err(ApiError::ContentEncoding);
    }
    // A caller that asks first is told before it sends.
    let asks_first = headers.contains_key(EXPECT);
    let too_large = body.size_hint().lower() > MOST as u64;
    if too_large && asks_first {
        return Err(ApiError::BodyTooLarge);
    }
    match tokio::time::timeout(deadline, collect(&mut body)).await {
        Ok(result) => result,
        Err(_) => Err(ApiError::RequestTimeout),
    }
}

async fn collect(body: &mut Incoming) -> Result<Bytes, ApiError> {
    let mut collected = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        // The caller broke off or sent a broken chunk; it will hardly read what we say.
        let broken = |_| BodyProblems::broken_off();
        let Ok(data) = frame.map_err(broken)?.into_data() else {
            continue;
        };
        length += data.len();
        if length > THROWN_AWAY {
            break;
        }
        if length <= MOST {
            if collected.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            collected.extend_from_slice(&data);
        }
    }
    if length > MOST {
        Err(ApiError::BodyTooLarge)
    } else {
        Ok(collected.freeze())
    }
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
