//! The one `Error` body. Every failure of the server is a variant here: its code, its status, the message for the client, its headers,
//! and, apart from them, the cause for the log.

use std::sync::LazyLock;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT_ENCODING, ALLOW, HeaderValue};
use serde::Serializer;

use super::operation::{Deprecation, MAX_BODY_BYTES, MAX_TARGET_BYTES};
use crate::http::{Rejection, Response};
use crate::limit::Period;
use crate::pet::InvalidBody;
use crate::store::StoreError;

/// The end of every message of a 429.
const SECONDS_SUFFIX: &str = " s.";

/// The message of a ban up to the seconds.
const BANNED_MESSAGE: &str =
    "This API key is temporarily banned for continuing after being rate limited. Try again in ";

const UNAVAILABLE_MESSAGE: &str = "The service is temporarily unavailable. Try again in a moment.";

/// The message of an exceeded limit up to the seconds. Like [`BANNED_MESSAGE`] and [`TOO_MANY_FAILURES_MESSAGE`], it needs no
/// escaping in JSON.
const fn exceeded(period: &Period) -> &'static str {
    match period {
        Period::Minute => {
            "This API key has exceeded its limit of requests per minute. Try again in "
        }
        Period::Day => "This API key has exceeded its limit of requests per day. Try again in ",
    }
}

/// The message of too many failed authentications up to the seconds.
const TOO_MANY_FAILURES_MESSAGE: &str =
    "This address has exceeded its limit of failed authentications. Try again in ";

/// The failure of a request. A `cause` is only for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("The API key is missing: send it in the header Authorization: Bearer <API_KEY>.")]
    MissingApiKey,
    /// Unknown, revoked, expired and malformed keys are not distinguished.
    #[error("The API key is invalid.")]
    InvalidApiKey,
    /// More than one `Authorization`: which of them counts is ambiguous.
    #[error("Authorization must be given at most once.")]
    SeveralApiKeys,
    #[error(
        "The admin token is missing: send it in the header Authorization: Bearer <ADMIN_TOKEN>."
    )]
    MissingAdminToken,
    #[error("The admin token is invalid.")]
    InvalidAdminToken,
    /// The admin listener rejects it, with any credentials.
    #[error("{0}")]
    Forbidden(&'static str),
    /// A rule about keys, animals or orders forbids it.
    #[error("{0}.")]
    Conflict(String),
    #[error("{0}.")]
    InvalidAdminBody(String),
    #[error("{name} {problem}.")]
    InvalidParameter { name: &'static str, problem: String },
    #[error("{0}")]
    InvalidBody(#[from] InvalidBody),
    #[error("{0}")]
    NotFound(&'static str),
    #[error("This path supports only {0}.")]
    MethodNotAllowed(&'static str),
    #[error("The request did not arrive in time.")]
    RequestTimeout,
    #[error(
        "The first request with this Idempotency-Key is still in progress. Try again in a moment."
    )]
    IdempotencyConflict,
    #[error("This port requires HTTPS: use https:// in the URL.")]
    HttpsRequired,
    #[error("This operation was removed on {}. Use GET {} instead.", .0.sunset.day(), .0.successor)]
    Gone(Deprecation),
    #[error("The body must not exceed {MAX_BODY_BYTES} bytes.")]
    BodyTooLarge,
    #[error("Path and query must not exceed {MAX_TARGET_BYTES} bytes.")]
    UriTooLong,
    #[error("Transfer-Encoding must be chunked or absent.")]
    TransferEncoding,
    #[error("The body must not be compressed: send it without Content-Encoding.")]
    ContentEncoding,
    #[error("The body must be JSON: send it with Content-Type: application/json.")]
    UnsupportedMediaType,
    #[error("This Idempotency-Key was already used with a different animal: use a new one.")]
    IdempotencyMismatch,
    #[error("{}{retry_after}{SECONDS_SUFFIX}", exceeded(.by))]
    RateLimited { by: Period, retry_after: u64 },
    #[error("{TOO_MANY_FAILURES_MESSAGE}{retry_after}{SECONDS_SUFFIX}")]
    TooManyFailures { retry_after: u64 },
    #[error("{BANNED_MESSAGE}{retry_after}{SECONDS_SUFFIX}")]
    KeyBanned { retry_after: u64 },
    #[error(
        "Internal error. If it persists, report the X-Request-Id of this response to the operator."
    )]
    Internal { cause: String },
    /// 503 with a message for the client.
    #[error("{0}")]
    UnavailableWithMessage(String),
    #[error("{UNAVAILABLE_MESSAGE}")]
    Unavailable { cause: String },
    /// The reply of the database to a commit was lost or is late, or the commit could not be synced.
    #[error(
        "The change may have been made: the database has not confirmed it. Check before you repeat it."
    )]
    Unconfirmed { cause: String },
    /// A limit on connections or streams is reached. It has no cause: it is counted, and an error in the log, besides the
    /// log line of the request, would amplify a flood.
    #[error("{UNAVAILABLE_MESSAGE}")]
    Overloaded,
}

impl ApiError {
    /// `Retry-After` in seconds of every 503, and of the 409 while the first request with the same `Idempotency-Key` is in flight.
    const RETRY_AFTER_SECONDS: u64 = 1;

    /// The status and the machine-readable code.
    pub(crate) const fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::MissingApiKey => (StatusCode::UNAUTHORIZED, "missing_api_key"),
            Self::MissingAdminToken => (StatusCode::UNAUTHORIZED, "missing_admin_token"),
            Self::InvalidAdminToken => (StatusCode::UNAUTHORIZED, "invalid_admin_token"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
            Self::InvalidAdminBody(_) => (StatusCode::BAD_REQUEST, "invalid_body"),
            Self::InvalidApiKey | Self::SeveralApiKeys => {
                (StatusCode::UNAUTHORIZED, "invalid_api_key")
            }
            Self::InvalidParameter { .. } | Self::TransferEncoding => {
                (StatusCode::BAD_REQUEST, "invalid_parameter")
            }
            Self::InvalidBody(_) => (StatusCode::BAD_REQUEST, "invalid_body"),
            Self::HttpsRequired => (StatusCode::BAD_REQUEST, "https_required"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::IdempotencyConflict => (StatusCode::CONFLICT, "idempotency_conflict"),
            Self::Gone(_) => (StatusCode::GONE, "gone"),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::UriTooLong => (StatusCode::URI_TOO_LONG, "uri_too_long"),
            Self::UnsupportedMediaType | Self::ContentEncoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Self::IdempotencyMismatch => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_mismatch"),
            Self::RateLimited { .. } | Self::TooManyFailures { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limited")
            }
            Self::KeyBanned { .. } => (StatusCode::TOO_MANY_REQUESTS, "key_banned"),
            Self::Internal { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
            Self::Unavailable { .. }
            | Self::Unconfirmed { .. }
            | Self::Overloaded
            | Self::UnavailableWithMessage(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        }
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        match self {
            Self::Internal { cause }
            | Self::Unavailable { cause }
            | Self::Unconfirmed { cause } => Some(cause),
            _ => None,
        }
    }

    pub(crate) fn response(&self) -> Response {
        static NO_KEY: HeaderValue = HeaderValue::from_static("Bearer realm=\"animal-store\"");
        static INVALID_KEY: HeaderValue =
            HeaderValue::from_static("Bearer realm=\"animal-store\", error=\"invalid_token\"");
        static NO_TOKEN: HeaderValue =
            HeaderValue::from_static("Bearer realm=\"animal-store-admin\"");
        static INVALID_TOKEN: HeaderValue = HeaderValue::from_static(
            "Bearer realm=\"animal-store-admin\", error=\"invalid_token\"",
        );
        let mut response = Response::json(self.kind().0, self.body());
        match self {
            Self::MissingApiKey => response.challenge = Some(&NO_KEY),
            Self::InvalidApiKey | Self::SeveralApiKeys => response.challenge = Some(&INVALID_KEY),
            Self::MissingAdminToken => response.challenge = Some(&NO_TOKEN),
            Self::InvalidAdminToken => response.challenge = Some(&INVALID_TOKEN),
            Self::RateLimited { retry_after, .. }
            | Self::TooManyFailures { retry_after }
            | Self::KeyBanned { retry_after } => {
                response.retry_after = Some(*retry_after);
            }
            Self::Unavailable { .. }
            | Self::Unconfirmed { .. }
            | Self::Overloaded
            | Self::UnavailableWithMessage(_)
            | Self::IdempotencyConflict => {
                response.retry_after = Some(Self::RETRY_AFTER_SECONDS);
            }
            // The rest of the body may still arrive, so the connection cannot be reused.
            Self::RequestTimeout | Self::BodyTooLarge => response.close = true,
            Self::MethodNotAllowed(allowed) => {
                return response.with(ALLOW, HeaderValue::from_static(allowed));
            }
            // In RFC 9110 this header distinguishes the two kinds of 415.
            Self::ContentEncoding => {
                return response.with(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            _ => {}
        }
        response
    }

    /// The body, as it is sent. Those of a missing and of an invalid API key are built once, which saves 6 % of the instructions of
    /// a 401. They are never freed, so that copies share no reference count.
    fn body(&self) -> Bytes {
        static MISSING: LazyLock<Bytes> =
            LazyLock::new(|| Bytes::from_static(ApiError::MissingApiKey.build_body().leak()));
        static INVALID: LazyLock<Bytes> =
            LazyLock::new(|| Bytes::from_static(ApiError::InvalidApiKey.build_body().leak()));
        match self {
            Self::MissingApiKey => MISSING.clone(),
            Self::InvalidApiKey => INVALID.clone(),
            _ => self.build_body().into(),
        }
    }

    /// The JSON body. Written by hand: a 429 must not be more expensive than a 200.
    fn build_body(&self) -> Vec<u8> {
        let (status, code) = self.kind();
        let mut body = Vec::with_capacity(256);
        body.extend_from_slice(b"{\"code\":\"");
        body.extend_from_slice(code.as_bytes());
        body.extend_from_slice(b"\",\"message\":");
        match self {
            // A rate-limited client retries often, so this is written without formatting, which saves 4 % of the instructions of a
            // 429. Nothing in it needs escaping.
            Self::RateLimited { by, retry_after } => {
                push_message(&mut body, exceeded(by), *retry_after);
            }
            Self::TooManyFailures { retry_after } => {
                push_message(&mut body, TOO_MANY_FAILURES_MESSAGE, *retry_after);
            }
            Self::KeyBanned { retry_after } => {
                push_message(&mut body, BANNED_MESSAGE, *retry_after)
            }
            // Writing to a Vec cannot fail, and a text always has a JSON form.
            _ => drop(serde_json::Serializer::new(&mut body).collect_str(self)),
        }
        body.extend_from_slice(b",\"status\":");
        body.extend_from_slice(status.as_str().as_bytes());
        body.push(b'}');
        body
    }
}

fn push_message(body: &mut Vec<u8>, start: &str, retry_after: u64) {
    body.push(b'"');
    body.extend_from_slice(start.as_bytes());
    body.extend_from_slice(itoa::Buffer::new().format(retry_after).as_bytes());
    body.extend_from_slice(SECONDS_SUFFIX.as_bytes());
    body.push(b'"');
}

impl From<Rejection> for ApiError {
    fn from(reason: Rejection) -> Self {
        match reason {
            Rejection::Timeout => Self::RequestTimeout,
            Rejection::PlainHttp => Self::HttpsRequired,
            Rejection::TooManyConnections(_) => Self::Overloaded,
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let cause = error.to_string();
        match error {
            StoreError::Unavailable(_) => Self::Unavailable { cause },
            StoreError::Unconfirmed(_) => Self::Unconfirmed { cause },
            StoreError::Failed(_) => Self::Internal { cause },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_written_by_hand_has_the_message_of_the_error() {
        for error in [
            ApiError::RateLimited {
                by: Period::Minute,
                retry_after: 1,
            },
            ApiError::RateLimited {
                by: Period::Day,
                retry_after: 86_400,
            },
            ApiError::TooManyFailures { retry_after: 60 },
            ApiError::KeyBanned { retry_after: 300 },
            ApiError::MissingApiKey,
            ApiError::InvalidApiKey,
            ApiError::NotFound("\"quoted\""),
        ] {
            let (status, code) = error.kind();
            let body: serde_json::Value = serde_json::from_slice(&error.body()).unwrap();
            let expected = serde_json::json!({
                "code": code, "message": error.to_string(), "status": status.as_u16()
            });
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn an_error_has_the_headers_that_say_what_to_do() {
        let cause = String::new;
        let missing = r#"Bearer realm="animal-store""#;
        let invalid = r#"Bearer realm="animal-store", error="invalid_token""#;
        let of_admin = |challenge: &str| challenge.replace("-store", "-store-admin");
        for (error, header) in [
            (ApiError::MissingApiKey, missing),
            (ApiError::InvalidApiKey, invalid),
            (ApiError::SeveralApiKeys, invalid),
            (ApiError::MissingAdminToken, &of_admin(missing)),
            (ApiError::InvalidAdminToken, &of_admin(invalid)),
            (
                ApiError::RateLimited {
                    by: Period::Day,
                    retry_after: 60,
                },
                "60 s",
            ),
            (ApiError::KeyBanned { retry_after: 300 }, "300 s"),
            (ApiError::Unavailable { cause: cause() }, "1 s"),
            (ApiError::Unconfirmed { cause: cause() }, "1 s"),
            (ApiError::Overloaded, "1 s"),
            (ApiError::UnavailableWithMessage(cause()), "1 s"),
            (ApiError::IdempotencyConflict, "1 s"),
            (ApiError::RequestTimeout, "close"),
            (ApiError::BodyTooLarge, "close"),
            (ApiError::UnsupportedMediaType, ""),
            (ApiError::Internal { cause: cause() }, ""),
        ] {
            let response = error.response();
            let found = [
                response
                    .challenge
                    .map(|value| value.to_str().unwrap().to_owned()),
                response.retry_after.map(|secs| format!("{secs} s")),
                response.close.then(|| "close".to_owned()),
            ];
            assert_eq!(
                found.map(Option::unwrap_or_default).concat(),
                header,
                "{error:?}"
            );
        }
    }

    #[test]
    fn the_cause_is_for_the_log_alone() {
        let cause = "disk I/O error";
        let failed = ApiError::from(StoreError::Failed(cause.into()));
        let unavailable = ApiError::from(StoreError::Unavailable(cause.into()));
        let unknown = ApiError::from(StoreError::Unconfirmed(cause.into()));
        for error in [failed, unavailable, unknown] {
            assert!(error.cause().is_some_and(|logged| logged.contains(cause)));
            assert!(!error.to_string().contains(cause));
        }
        assert_eq!(ApiError::InvalidApiKey.cause(), None);
    }
}
