//! Deprecated operations: every response announces the removal, and from that day on the operation is a 410. The dates are in the
//! table of operations.

use std::cell::RefCell;
use std::sync::LazyLock;

use http::header::HeaderValue;

use super::ApiError;
use super::operation::{Deprecation, Operation, Stability};
use super::url::LinkBase;
use crate::clock::Timestamp;
use crate::http::{DeprecationHeaders, Response, header};

/// Rejects an operation that has been removed.
pub(super) fn check(operation: Operation, now: Timestamp) -> Result<(), ApiError> {
    match operation.stability() {
        Stability::Deprecated(deprecation) if now >= deprecation.sunset => {
            Err(ApiError::Gone(*deprecation))
        }
        _ => Ok(()),
    }
}

/// Announces the removal of a deprecated operation in a response, with links below the base.
pub(super) fn announce<'a>(
    operation: Operation,
    base: impl FnOnce() -> LinkBase<'a>,
    response: &mut Response,
) {
    if let Stability::Deprecated(deprecation) = operation.stability() {
        response.deprecation = HEADERS[operation as usize].as_ref();
        response.link = Some(link(operation, deprecation.successor, base()));
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
    /// The last link that this thread wrote. Clients know a deployment by one name, or very few, so one is enough; more would have
    /// to be bounded.
    static LAST: RefCell<Option<Link>> = const { RefCell::new(None) };
}

/// A link, and its inputs.
struct Link {
    operation: Operation,
    https: bool,
    host_and_path: Vec<u8>,
    value: HeaderValue,
}

impl Link {
    fn new(operation: Operation, successor: &str, base: LinkBase<'_>) -> Self {
        let name = operation.name();
        Self {
            operation,
            https: base.https,
            host_and_path: base.host_and_path.to_owned(),
            value: header::value(format!(
                "<{base}/v1{successor}>; rel=\"successor-version\", \
                 <{base}/docs#{name}>; rel=\"deprecation\"; type=\"text/html\""
            )),
        }
    }

    fn is_of(&self, operation: Operation, base: LinkBase<'_>) -> bool {
        self.operation == operation
            && self.https == base.https
            && self.host_and_path == base.host_and_path
    }
}

fn link(operation: Operation, successor: &str, base: LinkBase<'_>) -> HeaderValue {
    LAST.with_borrow_mut(|last| {
        match last {
            Some(last) if last.is_of(operation, base) => last,
            _ => last.insert(Link::new(operation, successor, base)),
        }
        .value
        .clone()
    })
}
