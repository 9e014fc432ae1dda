//! `GET /pets/{petId}`: one animal. Deprecated: every answer says so, and from its last day on there is only that.

use hyper::StatusCode;
use hyper::header::{HeaderValue, LINK};

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
        Ok(self.get_pet_frame.answer(StatusCode::OK, json))
    }
}

/// The frame of every answer of this operation: it announces the operation's end.
pub(super) fn frame(base: &BaseUrl) -> Frame {
    let link = format!(
        "<{base}/pets?status=available>; rel=\"successor-version\", \
         <{root}/docs>; rel=\"deprecation\"; type=\"text/html\"",
        root = base.root()
    );
    let sunset = HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT");
    Frame::new([
        (header::DEPRECATION, HeaderValue::from_static("@1794700800")),
        (header::SUNSET, sunset),
        (LINK, header::value(link)),
    ])
}
