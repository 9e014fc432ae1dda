//! A page of a list, with the `Link` to the next one.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderValue, LINK};

use super::url::LinkBase;
use super::{Answer, ApiError, answer, frame};
use crate::page::{Cursor, PageSize, Scope};
use crate::store::Page;

/// The answer for a page at `path`, which ends in `?limit=`, with a link to the one after it, if there is one, with the parameters of this one.
pub(super) fn answer(
    page: Page,
    base: LinkBase<'_>,
    path: &str,
    limit: PageSize,
    scope: Scope,
) -> Result<Answer, ApiError> {
    let mut answer = match page.next {
        Some(next) => {
            let link = link(next, base, path, limit, scope);
            frame::WITH_LINK.answer_with(StatusCode::OK, page.json, &LINK, link)
        }
        None => answer::json(StatusCode::OK, page.json),
    };
    match answer.body_mut().hold() {
        true => Ok(answer),
        false => Err(ApiError::Unavailable {
            cause: "too many large pages are not taken by their clients".into(),
        }),
    }
}

fn link(
    next: Cursor,
    base: LinkBase<'_>,
    path: &str,
    limit: PageSize,
    scope: Scope,
) -> HeaderValue {
    let mut link = Vec::with_capacity(base.place().len() + path.len() + 112);
    let mut put = |text: &[u8]| link.extend_from_slice(text);
    put(if base.is_https() {
        b"<https://"
    } else {
        b"<http://"
    });
    put(base.place());
    put(path.as_bytes());
    put(itoa::Buffer::new().format(limit.get()).as_bytes());
    if let Scope::Pets(Some(status)) = scope {
        put(b"&status=");
        put(status.word().as_bytes());
    }
    put(b"&cursor=");
    put(&next.bound_to(scope).text());
    put(b">; rel=\"next\"");
    HeaderValue::from_maybe_shared(Bytes::from(link)).unwrap_or(HeaderValue::from_static(""))
}
