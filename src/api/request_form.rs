//! The form of a request: what both listeners reject before they look at anything else.

use super::authority::Authority;
use super::error::ApiError;
use super::operation::MAX_TARGET_BYTES;
use crate::http::Head;

/// Checks the form of a request, and returns its host.
pub(crate) fn check_head<'a>(head: &Head<'a>) -> Result<Option<Authority<'a>>, ApiError> {
    if head.target_length > MAX_TARGET_BYTES {
        return Err(ApiError::UriTooLong);
    }
    if head.has_ambiguous_framing() {
        return Err(ApiError::TransferEncoding);
    }
    Authority::of(head)
}
