//! The admin listener: metrics and health, for operators. On loopback it is open; elsewhere it asks for a token.

mod exposition;
pub(crate) mod health;
mod metrics;
mod process;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request};

use crate::access::Presented;
use crate::access::address::AddressTable;
use crate::api::error::Limit;
use crate::api::{Answer, ApiError, answer};
use crate::clock::{Clock, Timestamp};
use crate::config::AdminToken;
use crate::http::RequestBody;
use crate::key::NoRandomness;
use crate::limit::redis::Health;
use crate::metric::Counter;
use crate::server::answers::Answers;
use crate::server::metrics::ServerMetrics;
use crate::server::panic::caught;
use crate::server::readiness::Readiness;
use crate::server::request_id::{RequestId, RequestIds};
use crate::server::stream::Progress;
use crate::store::Store;
use metrics::Metrics;

/// Who answers at the admin listener.
#[derive(Debug)]
pub(crate) struct Desk {
    readiness: Arc<Readiness>,
    clock: Clock,
    token: Option<AdminToken>,
    /// Requests without the token, by address.
    failures: AddressTable,
    metrics: Metrics,
    ids: RequestIds,
}

impl Desk {
    pub(crate) fn new(
        store: Arc<Store>,
        metrics: Arc<ServerMetrics>,
        redis: Option<Arc<Health>>,
        readiness: Arc<Readiness>,
        clock: Clock,
        token: Option<AdminToken>,
        lost_lines: Arc<Counter>,
    ) -> Result<Self, NoRandomness> {
        let metrics = Metrics {
            started: clock.now(),
            clock: clock.clone(),
            store,
            metrics,
            redis,
            lost_lines,
        };
        Ok(Self {
            readiness,
            clock,
            token,
            failures: AddressTable::default(),
            metrics,
            ids: RequestIds::new()?,
        })
    }

    async fn show(&self, head: &Parts, peer: IpAddr) -> Result<Answer, ApiError> {
        let page = head.uri.path();
        if !["/livez", "/readyz", "/metrics"].contains(&page) {
            return Err(ApiError::NotFound(
                "There is nothing at this path. Try /metrics, /livez or /readyz.",
            ));
        }
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return Err(ApiError::MethodNotAllowed("GET, HEAD"));
        }
        match page {
            "/livez" => Ok(health::live()),
            "/readyz" => health::ready(&self.readiness, head.uri.query()),
            _ => {
                self.admit(head, peer)?;
                Ok(self.metrics.page(&head.headers))
            }
        }
    }

    /// Whether a request has the token, where there is one. Failures are counted by address, as those of API keys are.
    fn admit(&self, head: &Parts, peer: IpAddr) -> Result<(), ApiError> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let presented = Presented::in_headers(&head.headers);
        if let Presented::Key(presented) = presented
            && token.admits(presented)
        {
            return Ok(());
        }
        let now = self.clock.now();
        if let Err(rate) = self.failures.fail(peer, now) {
            return Err(ApiError::RateLimited {
                by: Limit::Failures,
                retry_after: rate.reset.seconds_from(now),
            });
        }
        Err(match presented {
            Presented::Nothing => ApiError::MissingAdminToken,
            Presented::Key(_) | Presented::Several => {
                tracing::warn!(client = %peer.to_canonical(), "wrong admin token");
                ApiError::InvalidAdminToken
            }
        })
    }
}

impl Answers for Desk {
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
        progress: &Progress,
    ) -> Result<Answer, Infallible> {
        let work = progress.begin();
        let (head, incoming) = request.into_parts();
        let mut body = RequestBody::new(incoming, &head.headers);
        let id = self.ids.of(&head.headers);
        let result = caught(pin!(self.show(&head, peer))).await;
        let result = result.unwrap_or_else(|cause| Err(ApiError::Internal { cause }));
        let answer = result.unwrap_or_else(|error| {
            if let Some(cause) = error.cause() {
                tracing::error!(id = id.as_str(), cause, "an admin request failed");
            }
            error.answer()
        });
        body.drain().await;
        work.done();
        let mut answer = dressed(answer, id);
        progress.finish(&mut answer, &body);
        Ok(answer)
    }

    fn unasked(&self, error: &ApiError, _peer: IpAddr) -> Answer {
        dressed(error.answer(), self.ids.next())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

fn dressed(mut answer: Answer, id: RequestId) -> Answer {
    answer::finish(&mut answer, None, id.value());
    answer
}
