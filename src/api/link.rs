//! The `Link` to the next page of a list.

use std::fmt::Write;

use hyper::header::{HeaderValue, LINK};

use super::url::BaseUrl;
use super::{Answer, header};
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
    let mut link = format!("<{base}{path}?limit={limit}");
    // Writing to a String cannot fail.
    if let Some(status) = status {
        let _ = write!(link, "&status={}", status.word());
    }
    let _ = write!(link, "&cursor={next}>; rel=\"next\"");
    header::value(link)
}
