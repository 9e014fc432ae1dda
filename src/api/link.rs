//! A page of a list, with the `Link` to the next one.

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;

use super::url::LinkRoot;
use crate::http::Response;
use crate::page::{PageSize, Scope};
use crate::store::Page;

const CURSOR_PARAMETER: &[u8] = b"&cursor=";
const LINK_END: &[u8] = b">; rel=\"next\"";

/// Responds with a page, and with a `Link` to the next one, if any. `path` ends in `?limit=`, and the link repeats all parameters.
pub(super) fn respond(
    page: Page,
    root: LinkRoot<'_>,
    path: &str,
    limit: PageSize,
    scope: Scope,
) -> Response {
    let mut response = Response::json(StatusCode::OK, page.json);
    let Some(next) = page.next else {
        return response;
    };
    let scheme: &[u8] = match root.https {
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
    // Without spare capacity, so that `Bytes` needs no allocation of its own. Not `concat`, which takes 200 instructions more.
    let mut link = Vec::with_capacity(
        scheme.len()
            + root.host_and_path.len()
            + path.len()
            + limit.len()
            + parameter.len()
            + status.len()
            + CURSOR_PARAMETER.len()
            + cursor.len()
            + LINK_END.len(),
    );
    let mut put = |text: &[u8]| link.extend_from_slice(text);
    put(scheme);
    put(root.host_and_path);
    put(path.as_bytes());
    put(limit.as_bytes());
    if !status.is_empty() {
        put(parameter.as_bytes());
        put(status.as_bytes());
    }
    put(CURSOR_PARAMETER);
    put(&cursor);
    put(LINK_END);
    // It is visible ASCII, so this cannot fail.
    response.link = HeaderValue::from_maybe_shared(Bytes::from(link)).ok();
    response
}
