//! An answer on its way out: a status, headers, and a body that is already whole.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::header;

/// The most headers an answer has, give or take.
const HEADERS: usize = 12;

/// What goes back to a caller.
pub type Answer = Response<Full<Bytes>>;

/// An answer with a JSON body.
pub fn json(status: StatusCode, body: Bytes) -> Answer {
    with_type(status, header::JSON, body)
}

/// An answer with a body of this type.
pub fn with_type(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    // Room for what every answer has: growing on the way would move them all.
    answer.headers_mut().reserve(HEADERS);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}
