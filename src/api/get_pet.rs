//! `GET /pets/{petId}`: one animal. Deprecated: every answer says so, and from its last day on there is only that.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, LINK};

use super::frame::Frame;
use super::operation::decode;
use super::url::BaseUrl;
use super::{Answer, Api, ApiError, header};
use crate::clock::Timestamp;
use crate::pet::PetId;

/// 5 December 2030, 00:00 UTC.
const REMOVED: Timestamp = Timestamp::from_secs(1_922_659_200);

impl Api {
    pub(super) async fn get_pet(&self, id: &str, now: Timestamp) -> Result<Answer, ApiError> {
        const NO_SUCH_ANIMAL: ApiError =
            ApiError::NotFound("There is no animal with this identifier.");
        if now >= REMOVED {
            return Err(ApiError::Gone);
        }
        let id = decode(id)
            .as_deref()
            .and_then(PetId::from_path)
            .ok_or(NO_SUCH_ANIMAL)?;
        let json = self.store.pet(id).await?.ok_or(NO_SUCH_ANIMAL)?;
        Ok(self.deprecation.frame.answer(StatusCode::OK, json))
    }
}

/// What announces the end of this operation, with every answer.
#[derive(Debug)]
pub(super) struct Deprecation {
    link: HeaderValue,
    frame: Frame,
}

impl Deprecation {
    pub(super) fn new(base: &BaseUrl) -> Self {
        let link = header::value(format!(
            "<{base}/pets?status=available>; rel=\"successor-version\", \
             <{root}/docs>; rel=\"deprecation\"; type=\"text/html\"",
            root = base.root()
        ));
        Self {
            frame: Frame::new(headers(&link)),
            link,
        }
    }

    /// The headers.
    pub(super) fn headers(&self) -> [(HeaderName, HeaderValue); 3] {
        headers(&self.link)
    }
}

fn headers(link: &HeaderValue) -> [(HeaderName, HeaderValue); 3] {
    [
        (header::DEPRECATION, HeaderValue::from_static("@1794700800")),
        (
            header::SUNSET,
            HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT"),
        ),
        (LINK, link.clone()),
    ]
}
