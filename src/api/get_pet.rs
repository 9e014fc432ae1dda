//! `GET /pets/{petId}`: one animal. Deprecated: every answer says so, and from its last day on there is only that.

use std::cell::RefCell;

use hyper::StatusCode;
use hyper::header::{HeaderValue, LINK};

use super::frame::Frame;
use super::url::LinkBase;
use super::{Answer, Api, ApiError, header};
use crate::clock::Timestamp;
use crate::pet::PetId;

/// 5 December 2030, 00:00 UTC.
const REMOVED: Timestamp = Timestamp::from_secs(1_922_659_200);

impl Api {
    pub(super) async fn get_pet(
        &self,
        id: &str,
        base: LinkBase<'_>,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        const NO_SUCH_ANIMAL: ApiError =
            ApiError::NotFound("There is no animal with this identifier.");
        if now >= REMOVED {
            return Err(ApiError::Gone);
        }
        let id = PetId::from_path(id).ok_or(NO_SUCH_ANIMAL)?;
        let json = self.store.pet(id).await?.ok_or(NO_SUCH_ANIMAL)?;
        Ok(in_frame(base, |frame| frame.answer(StatusCode::OK, json)))
    }
}

thread_local! {
    /// The frame that this thread used last, and what its links begin with. Clients of a deployment know it by one name, or very
    /// few, so one is enough; more would have to be bounded.
    static LAST: RefCell<Option<Announcement>> = const { RefCell::new(None) };
}

struct Announcement {
    https: bool,
    place: Vec<u8>,
    frame: Frame,
}

impl Announcement {
    fn new(base: LinkBase<'_>) -> Self {
        Self {
            https: base.is_https(),
            place: base.place().to_owned(),
            frame: frame(base),
        }
    }

    fn is_below(&self, base: LinkBase<'_>) -> bool {
        self.https == base.is_https() && self.place == base.place()
    }
}

/// Makes a response of this operation, in a frame that announces the operation's end with links below `base`.
pub(super) fn in_frame(base: LinkBase<'_>, respond: impl FnOnce(&Frame) -> Answer) -> Answer {
    LAST.with_borrow_mut(|last| {
        if last.as_ref().is_some_and(|last| !last.is_below(base)) {
            *last = None;
        }
        let last = last.get_or_insert_with(|| Announcement::new(base));
        respond(&last.frame)
    })
}

fn frame(base: LinkBase<'_>) -> Frame {
    let link = format!(
        "<{base}/v1/pets?status=available>; rel=\"successor-version\", \
         <{base}/docs>; rel=\"deprecation\"; type=\"text/html\""
    );
    let sunset = HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT");
    Frame::new([
        (header::DEPRECATION, HeaderValue::from_static("@1794700800")),
        (header::SUNSET, sunset),
        (LINK, header::value(link)),
    ])
}
