//! A page of a list, with the `Link` to the next one.

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;

use super::url::LinkBase;
use crate::http::Response;
use crate::page::{Cursor, PageSize, Scope};
use crate::store::Page;

const CURSOR: &[u8] = b"&cursor=";
const END: &[u8] = b">; rel=\"next\"";

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
    let scheme: &[u8] = match base.https {
        true => b"<https://",
        false => b"<http://",
    };
    let mut digits = itoa::Buffer::new();
    let limit = digits.format(limit.get());
    let (parameter, status) = match scope {
        Scope::Pets(Some(status)) => ("&status=", status.as_str()),
        Scope::Pets(None) | Scope::Orders => ("", ""),
    };
    let cursor = next.bound_to(scope).text();
    let of_request = scheme.len() + base.host_and_path.len() + path.len() + limit.len();
    let of_page = parameter.len() + status.len() + CURSOR.len() + cursor.len() + END.len();
    // Without spare capacity, so that `Bytes` needs no allocation of its own. Not `concat`, which takes 200 instructions more.
    let mut link = Vec::with_capacity(of_request + of_page);
    let mut put = |text: &[u8]| link.extend_from_slice(text);
    put(scheme);
    put(base.host_and_path);
    put(path.as_bytes());
    put(limit.as_bytes());
    if !status.is_empty() {
        put(parameter.as_bytes());
        put(status.as_bytes());
    }
    put(CURSOR);
    put(&cursor);
    put(END);
    HeaderValue::from_maybe_shared(Bytes::from(link)).unwrap_or(HeaderValue::from_static(""))
}
