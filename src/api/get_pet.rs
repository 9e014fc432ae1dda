//! `GET /pets/{petId}`: one animal. Deprecated: every response says so, and from its last day on it is a 410.

use std::cell::RefCell;

use http::StatusCode;
use http::header::HeaderValue;

use super::url::LinkBase;
use super::{Api, ApiError};
use crate::clock::Timestamp;
use crate::http::{Deprecation, Response, header};
use crate::pet::PetId;

/// 5 December 2030, 00:00 UTC.
const REMOVED: Timestamp = Timestamp::from_secs(1_922_659_200);

static DEPRECATION: Deprecation = Deprecation {
    since: HeaderValue::from_static("@1794700800"),
    sunset: HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT"),
};

impl Api {
    pub(super) async fn get_pet(&self, id: &str, now: Timestamp) -> Result<Response, ApiError> {
        const NO_SUCH_ANIMAL: ApiError =
            ApiError::NotFound("There is no animal with this identifier.");
        if now >= REMOVED {
            return Err(ApiError::Gone);
        }
        let id = PetId::from_path(id).ok_or(NO_SUCH_ANIMAL)?;
        let json = self.store.pet(id).await?.ok_or(NO_SUCH_ANIMAL)?;
        Ok(Response::json(StatusCode::OK, json))
    }
}

/// Announces the end of the operation in a response, with links below `base`.
pub(super) fn deprecate(response: &mut Response, base: LinkBase<'_>) {
    response.deprecation = Some(&DEPRECATION);
    response.link = Some(LAST.with_borrow_mut(|last| {
        match last {
            Some(last) if last.is_below(base) => last,
            _ => last.insert(Links::new(base)),
        }
        .value
        .clone()
    }));
}

thread_local! {
    /// The links that this thread wrote last. Clients of a deployment know it by one name, or very few, so one is enough; more
    /// would have to be bounded.
    static LAST: RefCell<Option<Links>> = const { RefCell::new(None) };
}

/// The links that announce the end of the operation, and what they begin with.
struct Links {
    https: bool,
    place: Vec<u8>,
    value: HeaderValue,
}

impl Links {
    fn new(base: LinkBase<'_>) -> Self {
        Self {
            https: base.is_https(),
            place: base.place().to_owned(),
            value: header::value(format!(
                "<{base}/v1/pets?status=available>; rel=\"successor-version\", \
                 <{base}/docs>; rel=\"deprecation\"; type=\"text/html\""
            )),
        }
    }

    fn is_below(&self, base: LinkBase<'_>) -> bool {
        self.https == base.is_https() && self.place == base.place()
    }
}
