//! The pipeline of a request: authenticate, limit, perform, and add the headers that every response has.
//! The order of these steps is defined only here.

mod admission;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use http::{HeaderName, Method};

use super::record::{RequestRecord, RequestState};
use super::request_span;
use super::shared::Shared;
use crate::access::LastKey;
use crate::access::proxy::Client;
use crate::api::head_check::check_head;
use crate::api::operation::READ_METHODS;
use crate::api::{ApiError, Operation, Route};
use crate::clock::{Clock, Timestamp};
use crate::fault::Fault;
use crate::http::{
    Exchange, Head, RateLimitHeaders, ReachedLimit, Rejection, RequestBody, RequestId, Response,
    Service, catch_panic,
};
use crate::key;
use crate::limit::{Limiter, Quota};
use crate::log::RequestLog;
use crate::metrics::{CANCELLED_STATUS, OperationLabel, WorkerMetrics};
use crate::percent::decode_path;
use crate::trace::{OTHER_METHOD, RequestSpan};

/// Requests a fault, in builds that have them.
const X_FAULT: HeaderName = HeaderName::from_static("x-fault");

pub(super) struct Pipeline {
    shared: Arc<Shared>,
    worker: usize,
    metrics: Arc<WorkerMetrics>,
    limiter: Limiter,
    log: RequestLog,
    https: bool,
}

impl Pipeline {
    pub(super) fn new(
        shared: Arc<Shared>,
        worker: usize,
        limiter: Limiter,
        log: RequestLog,
    ) -> Self {
        Self {
            metrics: Arc::clone(shared.metrics.worker(worker)),
            https: shared.tls.is_some(),
            shared,
            worker,
            limiter,
            log,
        }
    }
}

impl Service for Pipeline {
    type PerConnection = LastKey;

    async fn respond(
        &self,
        head: &Head<'_>,
        body: &mut RequestBody,
        exchange: &Exchange,
        last_key: &LastKey,
    ) -> Response {
        let now = self.shared.clock.now();
        let path = decode_path(head.path);
        let mut route = Route::of(head.method, &path);
        if self.shared.cors.is_preflight(head) {
            route = route.preflight();
        }
        // A preflight gets its response: otherwise the browser would not send the request, and the page could not read its 503.
        let is_over_limit = exchange.is_over_limit && !matches!(route, Route::Preflight { .. });
        let client = self.shared.proxies.client(exchange.peer, head, self.https);
        let method = method_name(head.method);
        let mut record = RequestRecord {
            metrics: &self.metrics,
            log: &self.log,
            now,
            exchange: Some(exchange),
            id: &exchange.id,
            method: Some(method),
            label: OperationLabel::of(&route),
            client: client.address,
            status: CANCELLED_STATUS,
            reason: is_over_limit.then_some("streams"),
            state: RequestState::default(),
            span: request_span::start(&route, &path, head, method, client, &exchange.id),
        };
        let request = Request {
            route,
            path: &path,
            head,
            client,
            now,
            exchange,
            is_over_limit,
            last_key,
        };
        let result = {
            let steps = self.steps(&request, body, &record.state);
            let steps = pin!(record.span.within(steps));
            catch_panic(steps).await
        };
        let fail = |error: ApiError| {
            self.log_failure(&record, &error);
            let base_urls = &self.shared.api.base_urls;
            base_urls.error_response(&route, head, client.https, &error)
        };
        let mut response = match result {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => fail(error),
            Err(cause) => fail(ApiError::Internal { cause }),
        };
        if route.is_api() {
            let counted = record.state.quota.get();
            let quota =
                counted.unwrap_or_else(|| self.shared.access.failures.quota(client.address, now));
            response.rate_limit = Some(rate_limit_headers(quota));
        }
        self.shared.cors.allow(head, &mut response);
        record.status = response.status.as_u16();
        response
    }

    fn reject(&self, reason: Rejection, peer: IpAddr, id: &RequestId) -> Response {
        let Shared {
            clock,
            access,
            cors,
            ..
        } = &*self.shared;
        let now = clock.now();
        let mut response = ApiError::from(reason).response();
        response.rate_limit = Some(rate_limit_headers(access.failures.quota(peer, now)));
        cors.allow_unknown(&mut response);
        let limit = reason.limit();
        if let Some(limit) = limit {
            self.metrics.count_rejected_connection(limit);
        }
        drop(RequestRecord {
            metrics: &self.metrics,
            log: &self.log,
            now,
            exchange: None,
            id,
            method: None,
            label: OperationLabel::Connection,
            client: peer,
            status: response.status.as_u16(),
            reason: limit.map(ReachedLimit::as_str),
            state: RequestState::default(),
            span: RequestSpan::none(),
        });
        response
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Rejects IDs that contain what looks like a key: IDs are logged.
    fn accepts_id(&self, id: &[u8]) -> bool {
        !key::may_contain_key(id)
    }

    async fn start(&self) {
        self.limiter.begin().await;
    }

    fn opened(&self) {
        self.metrics.connections.add(1);
        self.metrics.open_connections.add(1);
    }

    fn handshake_failed(&self) {
        self.metrics.failed_handshakes.add(1);
    }

    fn closed(&self) {
        self.metrics.open_connections.add(-1);
    }
}

/// A request without its body.
struct Request<'a> {
    route: Route<'a>,
    /// Decoded.
    path: &'a str,
    head: &'a Head<'a>,
    client: Client,
    now: Timestamp,
    exchange: &'a Exchange,
    is_over_limit: bool,
    last_key: &'a LastKey,
}

impl Pipeline {
    async fn steps(
        &self,
        request: &Request<'_>,
        body: &mut RequestBody,
        state: &RequestState,
    ) -> Result<Response, ApiError> {
        let Request {
            route, head, now, ..
        } = *request;
        if request.is_over_limit {
            self.metrics.rejected_streams.add(1);
            return Err(ApiError::Overloaded);
        }
        if !route.is_api() {
            check_head(head)?;
            let public = &self.shared.public;
            return match route {
                Route::Public(resource) => {
                    public.show(resource, request.path, head, &self.shared.readiness)
                }
                Route::Preflight { methods } => Ok(self.shared.cors.preflight(head, methods)),
                Route::PublicWrongMethod if public.has(request.path) => {
                    Err(ApiError::MethodNotAllowed(READ_METHODS))
                }
                _ => Err(ApiError::NotFound(
                    "There is no resource at this path. The API is under /v1.",
                )),
            };
        }
        let key = self.authenticate(request, state).await?;
        self.limit(&key, request, state).await?;
        let authority = check_head(head)?;
        let requests_fault = || head.all(&X_FAULT).next().is_some();
        Fault::PanicInRequest.panic_if(requests_fault);
        Fault::WorkerHangs.hang_if(requests_fault);
        match route {
            Route::Operation(call) => {
                let api = &self.shared.api;
                let root = api.base_urls.link_root(request.client.https, authority);
                api.perform(call, head, root, body, key.identity.id, now)
                    .await
            }
            Route::WrongMethod { allowed } => Err(ApiError::MethodNotAllowed(allowed)),
            _ => Err(ApiError::NotFound("There is no resource at this path.")),
        }
    }

    /// Logs the cause of a 5xx as an error, which [`ErrorLogLimiter`](super::error_log_limiter::ErrorLogLimiter) limits during an
    /// outage, and notes it for the log line of the request.
    fn log_failure(&self, record: &RequestRecord<'_>, error: &ApiError) {
        let Some(cause) = error.cause() else { return };
        let (id, operation) = (record.id.as_str(), record.label.name());
        let Shared {
            store,
            readiness,
            error_log_limiter,
            ..
        } = &*self.shared;
        // While writes fail, the readiness check logs why, once.
        let is_creation = matches!(
            record.label,
            OperationLabel::Operation(Operation::CreatePet)
        );
        let is_logged = match error {
            _ if is_creation && store.writer().state.health.failure().is_some() => false,
            ApiError::Unavailable { .. } | ApiError::Unconfirmed { .. } => {
                error_log_limiter.allows(record.now, readiness)
            }
            _ => true,
        };
        if is_logged {
            tracing::error!(id, operation, cause, "request failed");
        }
        record.state.cause.set(Some(cause.into()));
    }
}

pub(super) fn rate_limit_headers(quota: Quota) -> RateLimitHeaders {
    RateLimitHeaders {
        limit: quota.limit,
        remaining: quota.remaining,
        reset: quota.reset.as_secs_ceil(),
    }
}

/// The name of a method for the log. Unknown ones are not logged, because they may contain anything.
pub(super) fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::TRACE => "TRACE",
        Method::CONNECT => "CONNECT",
        _ => OTHER_METHOD,
    }
}

#[cfg(test)]
mod tests;
