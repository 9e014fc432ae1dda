//! The admin listener, for operators: the dashboard and its API, metrics and health. Without a token, which only a listener on
//! loopback may lack, everyone can read and nobody can change anything; with one, metrics require it, and the API requires it or a
//! session. Health checks, the page itself, logging in, and asking whether there is a session need no credentials.

mod api;
mod exposition;
mod guard;
mod live;
mod metrics;
mod off_thread;
mod page;
mod process;
mod resource;
mod sample;
mod session;
mod sources;
mod streams;

pub(crate) use sources::AdminSources;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Method;

use crate::access::Access;
use crate::access::proxy::Client;
use crate::api::ApiError;
use crate::api::head_check::check_head;
use crate::api::operation::READ_METHODS;
use crate::clock::Clock;
use crate::config::Config;
use crate::health;
use crate::http::{
    Exchange, Head, Rejection, RequestBody, RequestId, Response, Service, catch_panic,
};
use crate::key;
use crate::log::RecentEvents;
use guard::Guard;
use live::Live;

/// The service of the admin listener.
pub(crate) struct Admin {
    sources: Arc<AdminSources>,
    access: Arc<Access>,
    guard: Arc<Guard>,
    live: Arc<Live>,
    /// Timeout for a body to arrive.
    body_timeout: Duration,
    host_name: String,
}

impl Admin {
    /// The service of the listener, with or without TLS.
    pub(crate) fn new(
        sources: AdminSources,
        access: Arc<Access>,
        events: Arc<RecentEvents>,
        config: &Config,
        https: bool,
    ) -> Self {
        let guard = Guard::new(config, https, sources.clock.clone());
        let sources = Arc::new(sources);
        Self {
            live: Arc::new(Live::new(Arc::clone(&sources), events)),
            sources,
            access,
            guard: Arc::new(guard),
            body_timeout: config.request_timeout,
            host_name: process::host_name(),
        }
    }

    async fn route(
        &self,
        head: &Head<'_>,
        body: &mut RequestBody,
        exchange: &Exchange,
        client: Client,
    ) -> Result<Response, ApiError> {
        if exchange.is_over_limit {
            return Err(ApiError::Overloaded);
        }
        check_head(head)?;
        if let Some(path) = head.path.strip_prefix("/api/") {
            return self.respond_api(path, head, body, client).await;
        }
        let endpoint = Endpoint::at(head).ok_or(ApiError::NotFound(
            "There is no resource at this path. Try /, /metrics, /livez or /readyz.",
        ))?;
        if !matches!(*head.method, Method::GET | Method::HEAD) {
            return Err(ApiError::MethodNotAllowed(READ_METHODS));
        }
        match endpoint {
            Endpoint::Liveness => Ok(health::liveness()),
            Endpoint::Readiness => health::readiness(&self.sources.readiness, head.query),
            Endpoint::Metrics => {
                self.guard.check_token(head, client)?;
                Ok(self.sources.exposition(head))
            }
            Endpoint::File(file) => {
                // The page itself holds no secrets, but its requests would fail under a foreign host name.
                self.guard.check_host(head)?;
                Ok(file)
            }
        }
    }
}

/// What is at a path outside the admin API.
enum Endpoint {
    Liveness,
    Readiness,
    Metrics,
    /// A file of the dashboard.
    File(Response),
}

impl Endpoint {
    fn at(head: &Head<'_>) -> Option<Self> {
        match head.path {
            "/livez" => Some(Self::Liveness),
            "/readyz" => Some(Self::Readiness),
            "/metrics" => Some(Self::Metrics),
            _ => page::respond(head).map(Self::File),
        }
    }
}

impl Service for Admin {
    type PerConnection = ();

    async fn respond(
        &self,
        head: &Head<'_>,
        body: &mut RequestBody,
        exchange: &Exchange,
        (): &(),
    ) -> Response {
        let client = self.guard.client(exchange.peer, head);
        let result = catch_panic(pin!(self.route(head, body, exchange, client))).await;
        let result = result.unwrap_or_else(|cause| Err(ApiError::Internal { cause }));
        result.unwrap_or_else(|error| {
            let id = exchange.id.as_str();
            // The outage is logged once, but an open page fails again and again.
            let is_known =
                matches!(error, ApiError::Unavailable { .. }) && self.sources.readiness.in_outage();
            match error.cause() {
                Some(cause) if is_known => tracing::debug!(id, cause, "admin request failed"),
                Some(cause) => tracing::error!(id, cause, "admin request failed"),
                None => {}
            }
            // Its handler has not logged it. The path is safe to log: only IDs vary in it.
            if matches!(error, ApiError::Unconfirmed { .. }) {
                let subject = format!("{} {}", head.method, head.path);
                tracing::warn!(id, subject, client = %client.address, "a change may have been made: the database has not confirmed it");
            }
            error.response()
        })
    }

    fn reject(&self, reason: Rejection, _peer: IpAddr, _id: &RequestId) -> Response {
        ApiError::from(reason).response()
    }

    /// Every change is logged, even if its client does not wait for the response.
    fn completes_requests(&self) -> bool {
        true
    }

    fn clock(&self) -> &Clock {
        &self.sources.clock
    }

    fn accepts_id(&self, id: &[u8]) -> bool {
        !key::may_contain_key(id)
    }

    async fn start(&self) {
        let live = Arc::clone(&self.live);
        tokio::task::spawn_local(async move { live.sample().await });
        let live = Arc::clone(&self.live);
        tokio::task::spawn_local(async move { live.count_pets().await });
    }
}
