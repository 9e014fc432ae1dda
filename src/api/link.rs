//! The `Link` to the next page of a list.

use bytes::Bytes;
use hyper::header::{HeaderValue, LINK};

use super::Answer;
use super::url::BaseUrl;
use crate::digits;
use crate::page::{Cursor, PageSize};
use crate::pet::PetStatus;

/// Adds the link to the page at `next`, if there is one, with the parameters of this one.
pub(super) fn add_next(
    answer: &mut Answer,
    next: Option<Cursor>,
    base: &BaseUrl,
    path: &str,
    limit: PageSize,
    status: Option<PetStatus>,
) {
    if let Some(next) = next {
        answer
            .headers_mut()
            .insert(LINK, link(next, base, path, limit, status));
    }
}

fn link(
    next: Cursor,
    base: &BaseUrl,
    path: &str,
    limit: PageSize,
    status: Option<PetStatus>,
) -> HeaderValue {
    let mut link = Vec::with_capacity(base.as_str().len() + path.len() + 96);
    let mut put = |text: &str| link.extend_from_slice(text.as_bytes());
    put("<");
    put(base.as_str());
    put(path);
    put("?limit=");
    digits::push(&mut link, limit.get() as u64);
    let mut put = |text: &[u8]| link.extend_from_slice(text);
    if let Some(status) = status {
        put(b"&status=");
        put(status.word().as_bytes());
    }
    put(b"&cursor=");
    put(&next.text());
    put(b">; rel=\"next\"");
    HeaderValue::from_maybe_shared(Bytes::from(link)).unwrap_or(HeaderValue::from_static(""))
}
