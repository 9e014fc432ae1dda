//! The attributes of the span of a request.

use http::HeaderName;

use crate::access::proxy::Client;
use crate::api::Route;
use crate::http::{Head, RequestId};
use crate::key;
use crate::metrics::OperationLabel;
use crate::trace::{NewRequest, RequestSpan};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Starts the span of a request. Health checks have none, as they have no log line.
pub(super) fn start(
    route: &Route<'_>,
    path: &str,
    head: &Head<'_>,
    method: &'static str,
    client: Client,
    id: &RequestId,
) -> RequestSpan {
    if OperationLabel::of(route) == OperationLabel::Health {
        return RequestSpan::none();
    }
    RequestSpan::start(|| {
        let mut parents = head.all(&TRACEPARENT);
        let states: Vec<&[u8]> = head.all(&TRACESTATE).collect();
        NewRequest {
            // Two `traceparent` headers count as none: it is unknown which one is valid.
            traceparent: parents.next().filter(|_| parents.next().is_none()),
            tracestate: Some(states.join(&b","[..]))
                .filter(|state| !key::may_contain_key(state))
                .unwrap_or_default(),
            method,
            route: route.template(),
            path: is_harmless(route).then_some(path),
            https: client.https,
            client: client.address,
            id: id.as_str(),
        }
    })
}

/// Whether the path is that of an operation and cannot contain a misplaced secret: it is fixed, or its variable segment is a number.
fn is_harmless(route: &Route<'_>) -> bool {
    match route {
        Route::Operation(call) => {
            call.parameter.is_empty() || call.parameter.parse::<i64>().is_ok()
        }
        _ => false,
    }
}
