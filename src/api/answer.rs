//! An answer on its way out: a status, headers, and a body that is already whole.

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};

use super::{frame, header};
use crate::http::Content;

pub use frame::finish;

/// What goes back to a caller.
pub type Answer = Response<Content>;

/// An answer with a JSON body that is of this moment: not to be stored.
pub fn json(status: StatusCode, body: Bytes) -> Answer {
    frame::PLAIN.answer(status, body)
}

/// An answer with a body of this type.
pub fn with_type(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Answer {
    let mut answer = Response::new(Content::from(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(X_CONTENT_TYPE_OPTIONS, header::NOSNIFF);
    answer
}
