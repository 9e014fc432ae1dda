//! The admin listener: metrics and health, for operators. On loopback it is open; elsewhere it requires a token.

mod exposition;
mod metrics;
mod process;

pub(crate) use metrics::MetricsPage;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use http::Method;

use crate::access::Presented;
use crate::access::address::AddressTable;
use crate::api::ApiError;
use crate::api::error::Limit;
use crate::clock::{Clock, Timestamp};
use crate::config::AdminToken;
use crate::health::{self, Readiness};
use crate::http::{
    Exchange, Head, Rejection, RequestBody, RequestId, Response, Service, catch_panic,
};
use crate::key::KeyHash;

#[derive(Debug)]
pub(crate) struct Admin {
    readiness: Arc<Readiness>,
    clock: Clock,
    token: Option<AdminToken>,
    /// Requests without the token, by address.
    failures: AddressTable,
    metrics: MetricsPage,
}

impl Admin {
    pub(crate) fn new(metrics: MetricsPage, token: Option<AdminToken>) -> Self {
        Self {
            readiness: Arc::clone(&metrics.readiness),
            clock: metrics.clock.clone(),
            token,
            failures: AddressTable::default(),
            metrics,
        }
    }

    async fn show(&self, head: &Head<'_>, peer: IpAddr) -> Result<Response, ApiError> {
        if !["/livez", "/readyz", "/metrics"].contains(&head.path) {
            return Err(ApiError::NotFound(
                "There is no resource at this path. Try /metrics, /livez or /readyz.",
            ));
        }
        if !matches!(*head.method, Method::GET | Method::HEAD) {
            return Err(ApiError::MethodNotAllowed("GET, HEAD"));
        }
        match head.path {
            "/livez" => Ok(health::live()),
            "/readyz" => health::ready(&self.readiness, head.query),
            _ => {
                self.authenticate(head, peer)?;
                Ok(self.metrics.page(head))
            }
        }
    }

    /// Checks the token, if one is configured. Failures are counted by address, like those of API keys.
    fn authenticate(&self, head: &Head<'_>, peer: IpAddr) -> Result<(), ApiError> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let presented = Presented::of(head.authorization);
        if let Presented::Key(presented) = presented
            && token.matches(presented)
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
                tracing::warn!(client = %peer.to_canonical(), "invalid admin token");
                ApiError::InvalidAdminToken
            }
        })
    }
}

impl Service for Admin {
    async fn respond(
        &self,
        head: &Head<'_>,
        _body: &mut RequestBody,
        exchange: &Exchange,
    ) -> Response {
        let result = catch_panic(pin!(self.show(head, exchange.peer))).await;
        let result = result.unwrap_or_else(|cause| Err(ApiError::Internal { cause }));
        result.unwrap_or_else(|error| {
            if let Some(cause) = error.cause() {
                tracing::error!(id = exchange.id.as_str(), cause, "admin request failed");
            }
            error.response()
        })
    }

    fn reject(&self, reason: Rejection, _peer: IpAddr, _id: &RequestId) -> Response {
        ApiError::from(reason).response()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn accepts_id(&self, id: &[u8]) -> bool {
        !KeyHash::is_like_a_key(id)
    }
}
