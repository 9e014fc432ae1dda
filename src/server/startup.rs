//! Startup, until the keys are read. A migration can take minutes, and so can many keys of a database that is far away: meanwhile
//! `/livez` gets 200, a preflight 204 (with `--cors-origin`) and everything else 503, and the service manager is told to wait. A
//! normal startup is shorter than the grace period, in which connections wait in the queue of their socket: no client of a
//! restarted server gets a 503.

use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval_at, timeout};

use super::listeners::Listeners;
use super::pipeline::{method_name, rate_limit_headers};
use super::threads;
use crate::access::TrustedProxies;
use crate::access::auth_failures::AuthFailures;
use crate::api::cors::Cors;
use crate::api::operation::PublicResource;
use crate::api::{ApiError, BaseUrls, Route};
use crate::clock::Clock;
use crate::config::Config;
use crate::health;
use crate::http::{
    ConnectionLimits, Connections, Exchange, Head, Maximum, RateLimitHeaders, ReachedLimit,
    Rejection, RequestBody, RequestId, Response, Service, Timeouts, Tls, accept,
};
use crate::key;
use crate::log::{RequestLine, RequestLog};
use crate::metrics::OperationLabel;
use crate::percent::decode_path;
use crate::systemd::Notifier;

/// How long opening the store may take before requests get 503 instead of waiting.
const STARTUP_GRACE: Duration = Duration::from_secs(1);

/// How long reading the keys may take after that. A million keys of an embedded database take a few seconds.
const READING_GRACE: Duration = Duration::from_secs(10);

/// The interval of notifications.
const NOTIFY_INTERVAL: Duration = Duration::from_secs(5);

/// How long the service manager waits for the next notification.
const START_TIMEOUT_EXTENSION: Duration = Duration::from_secs(30);

/// The maximum number of connections during startup, on both listeners together: enough for health checks. All other requests get a 503.
const MAX_CONNECTIONS: usize = 256;

/// A startup in progress. Serves until this is dropped; connections that are open then get their response.
pub(super) struct Startup {
    opened: watch::Sender<bool>,
    _end: watch::Sender<bool>,
}

impl Startup {
    /// Records that the store is open: only the keys are still to be read.
    pub(super) fn store_opened(&self) {
        self.opened.send_replace(true);
    }
}

/// Begins to serve after the grace period.
pub(super) fn begin(
    config: &Config,
    listeners: &Listeners,
    tls: Option<&Tls>,
    base_urls: &BaseUrls,
    clock: &Clock,
    log: RequestLog,
) -> anyhow::Result<Startup> {
    let (end, mut ended) = watch::channel(false);
    let (opened, mut is_open) = watch::channel(false);
    let maximum = Maximum {
        total: MAX_CONNECTIONS,
        per_address: MAX_CONNECTIONS,
    };
    let connections = Connections::new(ConnectionLimits {
        connections: maximum,
        streams: maximum,
        is_exempt: Box::new(|_| false),
    });
    let timeouts = Timeouts {
        request: config.request_timeout,
        idle: config.idle_timeout,
    };
    let admin_tls = config.admin_tls(listeners.admin.local_addr()?).and(tls);
    let api = listeners.api.iter();
    let api = api.map(|listener| (listener, tls, config.cors.clone(), true));
    let admin = (&listeners.admin, admin_tls, Cors::default(), false);
    let mut shared = Vec::new();
    for (listener, tls, cors, is_api) in api.chain([admin]) {
        shared.push((listener.share()?, tls.cloned(), cors, is_api));
    }
    let (clock, base_urls) = (clock.clone(), base_urls.clone());
    let proxies = config.trusted_proxies.clone();
    // The end of its thread is expected, so nobody receives the report.
    let (reports, _) = mpsc::unbounded_channel();
    // On a separate thread: opening the store may block.
    threads::spawn("startup", reports, async move || {
        let opening = timeout(STARTUP_GRACE, is_open.wait_for(|opened| *opened));
        if opening.await.is_ok() {
            let reading = timeout(READING_GRACE, ended.wait_for(|ended| *ended));
            if reading.await.is_ok() {
                return Ok(());
            }
        }
        let log = Rc::new(log);
        let serving = shared.into_iter().map(|(listener, tls, cors, is_api)| {
            let service = StartupService {
                clock: clock.clone(),
                is_api,
                failures: AuthFailures::default(),
                proxies: proxies.clone(),
                base_urls: base_urls.clone(),
                https: tls.is_some(),
                cors,
                log: Rc::clone(&log),
            };
            accept(
                listener,
                tls,
                service,
                connections.clone(),
                timeouts,
                ended.clone(),
            )
        });
        join_all(serving).await.into_iter().collect()
    })?;
    Ok(Startup { opened, _end: end })
}

/// Waits until the store is open and the keys are read. The service manager is told to wait for as long as that takes: a migration, by
/// this process or another, has no time limit, and other waits have theirs in the store.
pub(super) async fn with_extended_start_timeout<T>(
    notifier: &Notifier,
    loading: impl Future<Output = T>,
) -> T {
    let mut loading = pin!(loading);
    let mut ticks = interval_at(Instant::now() + STARTUP_GRACE, NOTIFY_INTERVAL);
    let notification = format!(
        "EXTEND_TIMEOUT_USEC={}\nSTATUS=Opening the database and reading the keys: a migration may be in progress",
        START_TIMEOUT_EXTENSION.as_micros()
    );
    loop {
        tokio::select! {
            loaded = &mut loading => return loaded,
            _ = ticks.tick() => notifier.send(&notification),
        }
    }
}

/// The service of both listeners during startup.
struct StartupService {
    clock: Clock,
    /// Whether this is the API listener. Responses of the admin listener have no rate limit headers, and its requests are not logged.
    is_api: bool,
    failures: AuthFailures,
    proxies: TrustedProxies,
    base_urls: BaseUrls,
    https: bool,
    cors: Cors,
    log: Rc<RequestLog>,
}

fn starting() -> ApiError {
    ApiError::UnavailableWithMessage("The server is starting. Try again in a moment.".into())
}

impl StartupService {
    fn rate_limit(&self, address: IpAddr) -> Option<RateLimitHeaders> {
        let quota = || self.failures.quota(address, self.clock.now());
        self.is_api.then(|| rate_limit_headers(quota()))
    }

    fn log(
        &self,
        label: OperationLabel,
        client: IpAddr,
        status: StatusCode,
        id: &RequestId,
        request: Option<(&Head<'_>, &Exchange)>,
        reason: Option<&'static str>,
    ) {
        if !self.is_api || !label.is_logged() {
            return;
        }
        let took = request.map(|(_, exchange)| exchange.end());
        self.log.write(&RequestLine {
            at: self.clock.now(),
            id: id.as_bytes(),
            method: request.map(|(head, _)| method_name(head.method)),
            operation: label.name(),
            client,
            status: status.as_u16(),
            took: took.unwrap_or_default(),
            key: None,
            reason,
            cause: None,
        });
    }
}

impl Service for StartupService {
    type PerConnection = ();

    async fn respond(
        &self,
        head: &Head<'_>,
        _: &mut RequestBody,
        exchange: &Exchange,
        (): &(),
    ) -> Response {
        let path = decode_path(head.path);
        let mut route = Route::of(head.method, &path);
        if self.cors.is_preflight(head) {
            route = route.preflight();
        }
        let client = self.proxies.client(exchange.peer, head, self.https);
        let mut response = match route {
            // Otherwise the browser would not send the request, and the page could not read its 503.
            Route::Preflight { methods } => self.cors.preflight(head, methods),
            Route::Public(PublicResource::Liveness) => health::liveness(),
            _ => {
                let mut response =
                    self.base_urls
                        .error_response(&route, head, client.https, &starting());
                if route.is_api() {
                    response.rate_limit = self.rate_limit(client.address);
                }
                response
            }
        };
        self.cors.allow(head, &mut response);
        // Over HTTP/1 the next request goes to the server that is starting. Over HTTP/2 the connection ends when this service does.
        response.close = true;
        let (label, status) = (OperationLabel::of(&route), response.status);
        let request = Some((head, exchange));
        self.log(label, client.address, status, &exchange.id, request, None);
        response
    }

    fn reject(&self, reason: Rejection, peer: IpAddr, id: &RequestId) -> Response {
        let mut response = starting().response();
        response.rate_limit = self.rate_limit(peer);
        self.cors.allow_unknown(&mut response);
        let (label, status) = (OperationLabel::Connection, response.status);
        let limit = reason.limit().map(ReachedLimit::as_str);
        self.log(label, peer, status, id, None, limit);
        response
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn accepts_id(&self, id: &[u8]) -> bool {
        !key::may_contain_key(id)
    }
}
