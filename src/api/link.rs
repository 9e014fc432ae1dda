//! A page of a list, with the `Link` to the next one.

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;

use super::url::LinkBase;
use crate::http::Response;
use crate::page::{Cursor, PageSize, Scope};
use crate::store::Page;

/// Responds with a page, and with a `Link` to the next one, if any. `path` ends in `?limit=`, and the link repeats all parameters.
pub(super) fn respond(
    page: Page,
    base: LinkBase<'_>,
    path: &str,
    limit: PageSize,
    scope: Scope,
) -> Response {
    let mut response = Response::json(StatusCode::OK, page.json);
    response.link = page.next.map(|next| link(next, base, path, limit, scope));
    response
}

fn link(
    next: Cursor,
    base: LinkBase<'_>,
    path: &str,
    limit: PageSize,
    scope: Scope,
) -> HeaderValue {
    let mut link = Vec::with_capacity(base.host_and_path.len() + path.len() + 112);
    let mut put = |text: &[u8]| link.extend_from_slice(text);
    put(if base.https {
        b"<https://"
    } else {
        b"<http://"
    });
    put(base.host_and_path);
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
