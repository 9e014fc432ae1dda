//! What both listeners check of a request head before anything else: the length of its target, its framing and its host.

use super::authority::Authority;
use super::error::ApiError;
use super::operation::MAX_TARGET_BYTES;
use crate::http::Head;

/// Checks a request head, and returns its host.
pub(crate) fn check_head<'a>(head: &Head<'a>) -> Result<Option<Authority<'a>>, ApiError> {
    if head.target_length > MAX_TARGET_BYTES {
        return Err(ApiError::UriTooLong);
    }
    if head.has_ambiguous_framing() {
        return Err(ApiError::TransferEncoding);
    }
    Authority::of(head)
}
