//! The way of a request: who calls, may it, what does it want, and back out with every header an answer must have.
//! The order of these steps is decided here and nowhere else.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request};

use super::Shared;
use super::answers::Answers;
use super::metrics::{CANCELLED, Refused, RequestMetrics, Subject};
use super::panic::caught;
use super::request_id::{RequestId, RequestIds};
use super::stream::{Progress, Work};
use crate::access::proxy::Client;
use crate::access::{Identity, Key, Presented};
use crate::api::authority::Authority;
use crate::api::error::Limit;
use crate::api::operation::OPEN_METHODS;
use crate::api::percent::decode_path;
use crate::api::{Answer, ApiError, Destination, Route, answer};
use crate::clock::Timestamp;
use crate::fault::Fault;
use crate::http::{self, RequestBody};
use crate::key::{KeyId, NoRandomness};
use crate::limit::{BanChange, Limiter, Rate, Verdict};
use crate::log::{RequestLine, RequestLog};

/// The longest path and query.
const LONGEST_URI: usize = 8 * 1024;

/// One worker's door to the layers below.
#[derive(Debug)]
pub(super) struct Gate {
    shared: Arc<Shared>,
    /// The number of the worker.
    worker: usize,
    metrics: Arc<RequestMetrics>,
    limiter: Limiter,
    log: RequestLog,
    ids: RequestIds,
}

impl Gate {
    pub(super) fn new(
        shared: Arc<Shared>,
        worker: usize,
        limiter: Limiter,
        log: RequestLog,
    ) -> Result<Self, NoRandomness> {
        Ok(Self {
            metrics: Arc::clone(shared.metrics.worker(worker)),
            shared,
            worker,
            limiter,
            log,
            ids: RequestIds::new()?,
        })
    }
}

impl Answers for Gate {
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
        progress: &Progress,
    ) -> Result<Answer, Infallible> {
        let work = progress.begin();
        let (mut head, incoming) = request.into_parts();
        let mut body = RequestBody::new(incoming, &head.headers);
        if !body.is_read() {
            http::compact(&mut head);
        }
        let now = self.shared.clock.now();
        let path = decode_path(head.uri.path());
        let route = Route::of(&head.method, &path);
        let id = self.ids.of(&head.headers);
        let client = self.shared.proxies.client(peer, &head.headers);
        let mut entry = Entry::new(self, now, id, Subject::of(&route), client.address);
        entry.method = Some(method_name(&head.method));
        entry.work = Some(work);

        let asked = Asked {
            route,
            path: &path,
            head: &head,
            client,
            now,
        };
        let refuse = |error: ApiError| {
            self.log_failure(&entry, &error);
            let destination = || Destination {
                https: client.https,
                authority: Authority::of(&head).ok().flatten(),
            };
            self.shared.api.refuse(&route, destination, &error)
        };
        let result = {
            let way = pin!(self.pass(&asked, &mut body, &entry.learned));
            caught(way).await
        };
        // In one match: a response is large, and each step on its way moves it as a whole.
        let mut answer = match result {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => refuse(error),
            Err(cause) => refuse(ApiError::Internal { cause }),
        };

        let rate = route.is_api().then(|| {
            let learned = entry.learned.rate.get();
            learned.unwrap_or_else(|| self.shared.access.rate_of(client.address, now))
        });
        answer::finish(&mut answer, rate, entry.id.value());
        entry.status = answer.status().as_u16();
        if !body.is_read() {
            // In a box of its own: an answer that waits here would be moved once more for every request.
            return Ok(Box::pin(early(answer, body, progress, entry)).await);
        }
        progress.finish(&mut answer, &body);
        Ok(answer)
    }

    fn unasked(&self, error: &ApiError, peer: IpAddr) -> Answer {
        let now = self.shared.clock.now();
        let mut answer = error.answer();
        let mut entry = Entry::new(self, now, self.ids.next(), Subject::Connection, peer);
        entry.status = answer.status().as_u16();
        let rate = self.shared.access.rate_of(peer, now);
        answer::finish(&mut answer, Some(rate), entry.id.value());
        answer
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    async fn begin(&self) {
        self.limiter.begin().await;
    }

    fn accepted(&self) {
        self.metrics.connections.add(1);
        self.metrics.open_connections.add(1);
    }

    fn closed(&self) {
        self.metrics.open_connections.add(-1);
    }
}

/// An answer that was made before the body of its request was read. Where the connection can go on, what is left of the body
/// is read first.
async fn early(
    mut answer: Answer,
    mut body: RequestBody,
    progress: &Progress,
    entry: Entry<'_>,
) -> Answer {
    if !answer.headers().contains_key(CONNECTION) {
        body.drain().await;
    }
    progress.finish(&mut answer, &body);
    drop(entry);
    answer
}

/// What is learned of a request on its way, for its answer and its line in the log.
#[derive(Default)]
struct Learned {
    key: Cell<Option<KeyId>>,
    rate: Cell<Option<Rate>>,
}

/// A request without its body.
struct Asked<'a> {
    route: Route<'a>,
    /// Decoded.
    path: &'a str,
    head: &'a Parts,
    client: Client,
    now: Timestamp,
}

impl Gate {
    /// Through the layers: access, limit, and then what was asked for.
    async fn pass(
        &self,
        asked: &Asked<'_>,
        body: &mut RequestBody,
        learned: &Learned,
    ) -> Result<Answer, ApiError> {
        let Asked {
            route, head, now, ..
        } = *asked;
        if !route.is_api() {
            check_form(head, body)?;
            return match route {
                Route::Open(page) => self.shared.pages.show(page, asked.path, head, &self.shared),
                Route::OpenWrongMethod => Err(ApiError::MethodNotAllowed(OPEN_METHODS)),
                _ => Err(ApiError::NotFound(
                    "There is nothing at this path. The API is under /v1.",
                )),
            };
        }
        let key = self
            .identify(head, asked.client.address, now, learned)
            .await?;
        self.limit(&key, now, learned).await?;
        let authority = check_form(head, body)?;
        #[expect(clippy::panic, reason = "a panic that a test asked for")]
        if Fault::PanicInRequest.is_on() && head.headers.contains_key("x-fault") {
            panic!("as asked for");
        }
        match route {
            Route::Operation(operation) => {
                let destination = Destination {
                    https: asked.client.https,
                    authority,
                };
                self.shared
                    .api
                    .perform(operation, head, destination, body, key.id, now)
                    .await
            }
            Route::WrongMethod { allowed } => Err(ApiError::MethodNotAllowed(allowed)),
            _ => Err(ApiError::NotFound("There is nothing at this path.")),
        }
    }

    async fn identify(
        &self,
        head: &Parts,
        address: IpAddr,
        now: Timestamp,
        learned: &Learned,
    ) -> Result<Key, ApiError> {
        let Shared { access, store, .. } = &*self.shared;
        let presented = Presented::in_headers(&head.headers);
        match access.identify(store, presented, address, now).await? {
            Identity::Key(key) => {
                learned.key.set(Some(key.id));
                Ok(key)
            }
            Identity::Unauthenticated(rate) => {
                learned.rate.set(Some(rate));
                Err(match presented {
                    Presented::Nothing => ApiError::MissingApiKey,
                    Presented::Several => ApiError::SeveralApiKeys,
                    Presented::Key(_) => ApiError::InvalidApiKey,
                })
            }
            Identity::TooManyFailures(rate) => {
                learned.rate.set(Some(rate));
                self.metrics.refuse(Refused::Address);
                Err(ApiError::RateLimited {
                    by: Limit::Failures,
                    retry_after: rate.reset.seconds_from(now),
                })
            }
        }
    }

    /// Logs the cause of a 5xx. During an outage every request fails for the same cause, which was logged when that began:
    /// thousands of lines would hide everything else.
    fn log_failure(&self, entry: &Entry<'_>, error: &ApiError) {
        let Some(cause) = error.cause() else { return };
        let (id, operation) = (entry.id.as_str(), entry.subject.name());
        let Shared {
            store,
            readiness,
            failure_log,
            ..
        } = &*self.shared;
        let is_logged = match (error, entry.subject) {
            (ApiError::Unavailable { .. }, Subject::CreatePet) => {
                store.write_trouble().is_none() && failure_log.has_room(entry.now, readiness)
            }
            (ApiError::Unavailable { .. }, _) => failure_log.has_room(entry.now, readiness),
            _ => true,
        };
        match is_logged {
            true => tracing::error!(id, operation, cause, "request failed"),
            false => tracing::debug!(id, operation, cause, "request failed"),
        }
    }

    async fn limit(&self, key: &Key, now: Timestamp, learned: &Learned) -> Result<(), ApiError> {
        let Shared { access, ledger, .. } = &*self.shared;
        let meter = access.directory.meter(key);
        let decided = self.limiter.decide(key.id, meter, key.limits, now);
        let decision = decided.await;
        let now = decision.now;
        learned.rate.set(Some(decision.rate));
        if decision.first_unread {
            ledger.note_use(self.worker, key);
        }
        if let Some(moved) = decision.moved {
            self.store_ban(key.id, moved);
        }
        match decision.verdict {
            Verdict::Admitted => Ok(()),
            Verdict::RateLimited { by, until } => {
                self.metrics.refuse(Refused::Window);
                Err(ApiError::RateLimited {
                    by: by.into(),
                    retry_after: until.seconds_from(now),
                })
            }
            Verdict::Banned { until, new } => {
                self.metrics.refuse(Refused::Ban);
                if let Some(ban) = new {
                    self.metrics.bans.add(1);
                    tracing::warn!(key = key.id.0, until = %ban.until, "key banned");
                    self.store_ban(key.id, ban.into());
                }
                Err(ApiError::KeyBanned {
                    retry_after: until.seconds_from(now),
                })
            }
        }
    }
}

impl Gate {
    /// Stores a ban at once, so that it outlives even a crash; the next flush tries again if this fails.
    fn store_ban(&self, key: KeyId, ban: BanChange) {
        let shared = Arc::clone(&self.shared);
        shared.ledger.note_ban(key, ban);
        tokio::task::spawn_local(async move {
            if let Err(error) = shared.ledger.flush_bans(&shared.store).await {
                tracing::warn!(%error, "a ban could not be stored yet");
            }
        });
    }
}

/// What every request must be like, whatever it asks for. Gives the host that it is addressed to.
fn check_form<'a>(head: &'a Parts, body: &RequestBody) -> Result<Option<Authority<'a>>, ApiError> {
    if head
        .uri
        .path_and_query()
        .is_some_and(|uri| uri.as_str().len() > LONGEST_URI)
    {
        return Err(ApiError::UriTooLong);
    }
    // hyper takes any list that ends in chunked. Only such a body has an unknown length.
    if !body.has_length() && !is_chunked_once(&head.headers) {
        return Err(ApiError::TransferEncoding);
    }
    Authority::of(head).map_err(|problem| ApiError::InvalidParameter {
        name: "Host",
        problem: problem.to_string(),
    })
}

fn is_chunked_once(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (Some(encoding), None) => encoding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (None, _) => true,
        _ => false,
    }
}

/// The name of a method for the log. One that the standards do not know may hold anything, and is not repeated.
fn method_name(method: &Method) -> &'static str {
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
        _ => "other",
    }
}

/// The trace a request leaves. It is written when this is dropped, so that one that is given up leaves one too.
struct Entry<'a> {
    gate: &'a Gate,
    now: Timestamp,
    /// None where there was no request to work on.
    work: Option<Work<'a>>,
    id: RequestId,
    method: Option<&'static str>,
    subject: Subject,
    client: IpAddr,
    status: u16,
    learned: Learned,
}

impl<'a> Entry<'a> {
    fn new(
        gate: &'a Gate,
        now: Timestamp,
        id: RequestId,
        subject: Subject,
        client: IpAddr,
    ) -> Self {
        Self {
            gate,
            now,
            work: None,
            id,
            method: None,
            subject,
            client,
            status: CANCELLED,
            learned: Learned::default(),
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let took = self.work.as_ref().map(Work::done).unwrap_or_default();
        self.gate.metrics.count(self.subject, self.status, took);
        if self.subject != Subject::Health {
            self.gate.log.write(&RequestLine {
                at: self.now,
                id: self.id.as_bytes(),
                method: self.method,
                operation: self.subject.name(),
                client: self.client,
                status: self.status,
                took,
                key: self.learned.key.get(),
            });
        }
    }
}
