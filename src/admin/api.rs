//! The admin API: what the dashboard and scripts call. A result has the members that the corresponding command prints
//! with `--json`; that of a key has some more.

pub(super) mod keys;
mod orders;
mod pets;
mod query;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, SET_COOKIE};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Admin;
use super::guard::AdminIdentity;
use super::resource::Resource;
use crate::access::proxy::Client;
use crate::api::ApiError;
use crate::api::body::read_json;
use crate::clock::Timestamp;
use crate::http::{Body, Head, RequestBody, Response, header};
use crate::store::Store;

/// An authorized request to the admin API.
struct AdminCall<'a> {
    head: &'a Head<'a>,
    body: &'a mut RequestBody,
    client: Client,
    identity: AdminIdentity,
    now: Timestamp,
}

/// The response to a request, or why it failed.
type ApiResult = Result<Response, ApiError>;

/// Timeout for the few bytes of a login to arrive: its sender may not have the token, and a shutdown waits for it.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout for a key to be looked up before its live data begin.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogIn {
    token: String,
}

impl Admin {
    /// Responds to a request for the resource at this path, without `/api/`.
    pub(super) async fn respond_api(
        &self,
        path: &str,
        head: &Head<'_>,
        body: &mut RequestBody,
        client: Client,
    ) -> ApiResult {
        self.guard.check_host(head)?;
        let (resource, methods) = Resource::at(path).ok_or(ApiError::NotFound(
            "There is no resource at this path. The admin API is described in docs/operating.md.",
        ))?;
        let mut allowed = methods.split(", ");
        if !allowed.any(|method| method == head.method.as_str()) {
            return Err(ApiError::MethodNotAllowed(methods));
        }
        if resource == Resource::Session {
            match *head.method {
                Method::POST => return self.log_in(head, body, client).await,
                Method::DELETE => {}
                // `open`: whether the page can use the API without asking for the token. A 401 would be an error in the browser's
                // console.
                _ => {
                    let open = json!({"open": self.guard.has_access(head)});
                    return Ok(respond_json(StatusCode::OK, &open));
                }
            }
        }
        let identity = self.guard.authenticate(head, client)?;
        let changes = !matches!(*head.method, Method::GET | Method::HEAD);
        match changes {
            true => self.guard.check_change(head, client, identity)?,
            false => self.guard.check_read(head, client)?,
        }
        let mut call = AdminCall {
            head,
            body,
            client,
            identity,
            now: self.sources.clock.now(),
        };
        match resource {
            Resource::Overview => Ok(respond_json(StatusCode::OK, &self.overview(identity).await)),
            Resource::Live => self.live(&call).await,
            Resource::Session => Ok(self.log_out(&call)),
            Resource::Keys if changes => self.create_key(&mut call).await,
            Resource::Keys => self.list_keys(&call).await,
            Resource::Key(id) => self.show_key(id, &call).await,
            Resource::RotateKey(id) => self.rotate_key(id, &mut call).await,
            Resource::KeyPlan(id) => self.set_plan(id, &mut call).await,
            Resource::RevokeKey(id) => self.revoke_key(id, &call).await,
            Resource::UnbanKey(id) => self.unban_key(id, &call).await,
            Resource::Pets => self.list_pets(&call).await,
            Resource::Pet(id) => self.show_pet(id).await,
            Resource::PetStatus(id) => self.set_status(id, &mut call).await,
            Resource::Orders if changes => self.place_order(&mut call).await,
            Resource::Orders => self.list_orders(&call).await,
            Resource::CompleteOrder(id) => self.complete_order(id, &call).await,
            Resource::CancelOrder(id) => self.cancel_order(id, &call).await,
        }
    }

    async fn log_in(&self, head: &Head<'_>, body: &mut RequestBody, client: Client) -> ApiResult {
        let body = read_json(head, body, LOGIN_TIMEOUT.min(self.body_timeout)).await?;
        let LogIn { token } = parse(&body)?;
        let cookie = self.guard.log_in(head, client, &token)?;
        Ok(Response::new(StatusCode::NO_CONTENT).with(SET_COOKIE, cookie))
    }

    fn log_out(&self, call: &AdminCall<'_>) -> Response {
        let mut response = Response::new(StatusCode::NO_CONTENT);
        if let AdminIdentity::Session(id) = call.identity {
            response.add(SET_COOKIE, self.guard.sessions.end(id, call.client.https));
            tracing::info!(client = %call.client.address, "logged out of the dashboard");
        }
        response
    }

    async fn overview(&self, identity: AdminIdentity) -> Value {
        let mut overview = self.live.overview().await;
        overview["version"] = env!("CARGO_PKG_VERSION").into();
        overview["node"] = self.host_name.as_str().into();
        overview["startedAt"] = self.sources.started.to_string().into();
        let is_shared = self.store().is_shared();
        overview["database"] = if is_shared { "postgres" } else { "sqlite" }.into();
        overview["redis"] = self.sources.redis.is_some().into();
        overview["maxConnections"] = self.sources.max_connections.into();
        overview["mayChange"] = (identity != AdminIdentity::Anonymous).into();
        overview
    }

    /// A stream of events. With the query `key=ID` it includes the requests of that key by status, from now on.
    async fn live(&self, call: &AdminCall<'_>) -> ApiResult {
        let key = query::key(call.head.query)?;
        let tab = query::tab(call.head.query)?;
        // This server knows nearly every key, and the live data are needed most while the store does not respond.
        if let Some(key) = key
            && !self.access.directory.contains(key)
        {
            let found = timeout(LOOKUP_TIMEOUT, crate::keys::get(self.store(), key)).await;
            found.map_err(|_| ApiError::Unavailable {
                cause: "a key could not be looked up in time".to_owned(),
            })??;
        }
        let watch = key.map(|key| self.sources.metrics.watched.watch(key));
        let (guard, identity) = (Arc::clone(&self.guard), call.identity);
        let viewer = (call.client.address, identity);
        let is_valid = move || guard.is_valid(identity);
        let stream = self.live.stream(viewer, tab, watch, is_valid)?;
        let mut response = Response::with_type(EVENT_STREAM, Bytes::new());
        response.body = Body::streamed(stream);
        // A proxy that buffered it would never forward it.
        Ok(response
            .with(CACHE_CONTROL, header::NO_STORE)
            .with(ACCEL_BUFFERING, HeaderValue::from_static("no")))
    }

    fn store(&self) -> &Arc<Store> {
        &self.sources.store
    }

    /// Reads a body. An absent body counts as an empty object.
    async fn read<T: DeserializeOwned>(&self, call: &mut AdminCall<'_>) -> Result<T, ApiError> {
        if call.body.is_read() {
            return parse(b"{}");
        }
        let body = read_json(call.head, call.body, self.body_timeout).await?;
        parse(&body)
    }
}

impl AdminCall<'_> {
    /// Logs what an operator has changed.
    fn log(&self, done: &'static str, subject: &str) {
        tracing::info!(subject, client = %self.client.address, "{done}");
    }
}

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Parses a body into a type with named members, each given at most once.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    // serde would also take the elements of an array as members, in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::InvalidAdminBody(
            "The body must be a JSON object".into(),
        ));
    }
    serde_json::from_slice(body)
        .map_err(|error| ApiError::InvalidAdminBody(format!("The body is invalid: {error}")))
}

fn respond_json(status: StatusCode, value: &Value) -> Response {
    Response::json(status, value.to_string().into())
}

/// The error of an invalid member of a body.
fn invalid(name: &str, problem: impl std::fmt::Display) -> ApiError {
    ApiError::InvalidAdminBody(format!("{name} {problem}"))
}
