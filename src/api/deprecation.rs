//! Deprecated operations: every response announces the removal, and from that day on the operation responds with 410. The dates are
//! in the table of operations.

use std::cell::RefCell;
use std::sync::LazyLock;

use http::header::HeaderValue;

use super::ApiError;
use super::operation::{Deprecation, Operation, Stability};
use super::url::LinkRoot;
use crate::clock::Timestamp;
use crate::http::header::{self, LastValue, last_value};
use crate::http::{DeprecationHeaders, Response};

/// Rejects an operation that has been removed.
pub(super) fn check(operation: Operation, now: Timestamp) -> Result<(), ApiError> {
    match operation.stability() {
        Stability::Deprecated(deprecation) if now >= deprecation.sunset => {
            Err(ApiError::Gone(*deprecation))
        }
        _ => Ok(()),
    }
}

/// Announces the removal of a deprecated operation in a response, with links below the root.
pub(super) fn announce<'a>(
    operation: Operation,
    root: impl FnOnce() -> LinkRoot<'a>,
    response: &mut Response,
) {
    if let Stability::Deprecated(deprecation) = operation.stability() {
        response.deprecation = HEADERS[operation as usize].as_ref();
        response.link = Some(link(operation, deprecation.successor, root()));
    }
}

/// `Deprecation` and `Sunset` of each operation that is deprecated.
static HEADERS: LazyLock<[Option<DeprecationHeaders>; Operation::ALL.len()]> =
    LazyLock::new(|| {
        Operation::ALL.map(|operation| match operation.stability() {
            Stability::Deprecated(Deprecation { since, sunset, .. }) => {
                Some(DeprecationHeaders::new(
                    header::constant(format!("@{}", since.as_secs_ceil())),
                    header::constant(sunset.http_date()),
                ))
            }
            Stability::Stable | Stability::Beta => None,
        })
    });

thread_local! {
    /// The last link that this thread wrote, by its operation, whether it is HTTPS, and its host and path. Clients know a deployment by
    /// one name, or very few, so one is enough; more would have to be bounded. No host is empty, so the first one differs.
    static LAST_LINK: LastValue<(Operation, bool, Vec<u8>)> = const {
        RefCell::new((
            (Operation::ListPets, false, Vec::new()),
            HeaderValue::from_static(""),
        ))
    };
}

fn link(operation: Operation, successor: &str, root: LinkRoot<'_>) -> HeaderValue {
    let LinkRoot {
        https,
        host_and_path,
    } = root;
    let is_same = |last: &(Operation, bool, Vec<u8>)| {
        last.0 == operation && last.1 == https && last.2 == host_and_path
    };
    last_value(&LAST_LINK, is_same, || {
        let name = operation.name();
        let value = header::value(format!(
            "<{root}/v1{successor}>; rel=\"successor-version\", \
             <{root}/docs#{name}>; rel=\"deprecation\"; type=\"text/html\""
        ));
        ((operation, https, host_and_path.to_owned()), value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::url::BaseUrl;

    #[test]
    fn the_link_is_below_the_base_of_its_own_request_whatever_the_last_one_was() {
        let urls = [
            "http://a/v1",
            "https://a/v1",
            "http://b/v1",
            "http://a/b/v1",
        ];
        for last in urls {
            for url in urls {
                let [_, link] = [last, url].map(|url| {
                    let base: BaseUrl = url.parse().unwrap();
                    link(Operation::GetPet, "/pets", LinkRoot::from(&base))
                });
                let start = format!("<{url}/pets>; rel=\"successor-version\", ");
                assert!(link.to_str().unwrap().starts_with(&start), "{link:?}");
            }
        }
    }

    #[test]
    fn an_operation_is_gone_from_its_sunset_on() {
        for operation in Operation::ALL {
            let Stability::Deprecated(deprecation) = operation.stability() else {
                let end_of_time = Timestamp::from_millis(i64::MAX);
                assert!(check(operation, end_of_time).is_ok());
                continue;
            };
            let last = Timestamp::from_millis(deprecation.sunset.as_millis() - 1);
            assert!(check(operation, last).is_ok());
            assert!(check(operation, deprecation.sunset).is_err());
        }
    }
}
