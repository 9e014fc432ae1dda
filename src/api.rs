//! The operations: typed input, one call to the store, a response. Requests that arrive here are authenticated and within their
//! limits.

pub(crate) mod authority;
pub(crate) mod body;
pub mod cors;
mod create_pet;
mod deprecation;
pub(crate) mod docs;
pub mod document;
pub(crate) mod error;
mod get_pet;
pub(crate) mod head_check;
mod idempotency;
mod link;
mod list_orders;
mod list_pets;
pub(crate) mod operation;
pub(crate) mod query;
pub(crate) mod url;

pub(crate) use error::ApiError;
pub use operation::Operation;
pub(crate) use operation::{Call, Route};

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::http::{Head, RequestBody, Response};
use crate::key::KeyId;
use crate::store::Store;
use authority::Authority;
use idempotency::InFlight;
use url::{BaseUrl, LinkRoot};

pub(crate) struct Api {
    store: Arc<Store>,
    pub(crate) base_urls: BaseUrls,
    /// The timeout for a whole body.
    body_timeout: Duration,
    in_flight: InFlight,
}

/// The base URLs for links.
#[derive(Clone)]
pub(crate) struct BaseUrls {
    /// The one that the operator has configured, for all requests.
    pub public: Option<BaseUrl>,
    /// The address of the server, for a request without a host.
    pub local: BaseUrl,
}

impl Api {
    /// The operations on this store, with links below these base URLs.
    pub(crate) fn new(store: Arc<Store>, base_urls: BaseUrls, body_timeout: Duration) -> Self {
        Self {
            store,
            base_urls,
            body_timeout,
            in_flight: InFlight::default(),
        }
    }

    /// Performs an operation for the holder of a key.
    pub(crate) async fn perform(
        &self,
        call: Call<'_>,
        head: &Head<'_>,
        root: LinkRoot<'_>,
        body: &mut RequestBody,
        key: KeyId,
        now: Timestamp,
    ) -> Result<Response, ApiError> {
        deprecation::check(call.operation, now)?;
        let mut result = match call.operation {
            Operation::ListPets => self.list_pets(head.query, root).await,
            // Boxed: the state of a creation would make every read more expensive.
            Operation::CreatePet => Box::pin(self.create_pet(head, body, key, root, now)).await,
            Operation::GetPet => self.get_pet(call.parameter).await,
            Operation::ListOrders => self.list_orders(head.query, root).await,
        };
        if let Ok(response) = &mut result {
            deprecation::announce(call.operation, || root, response);
            if !response.body.count_against(key.0) {
                return Err(ApiError::Unavailable {
                    cause: "too many large responses have not been read by their clients".into(),
                });
            }
        }
        result
    }
}

impl BaseUrls {
    /// Returns the response to a failed request, with the headers that every response of its operation has.
    pub(crate) fn error_response(
        &self,
        route: &Route<'_>,
        head: &Head<'_>,
        https: bool,
        error: &ApiError,
    ) -> Response {
        let mut response = error.response();
        if let Route::Operation(call) = route {
            let root = || self.link_root(https, Authority::of(head).ok().flatten());
            deprecation::announce(call.operation, root, &mut response);
        }
        response
    }

    /// The beginning of links in the response to a request with this scheme and host, which only HTTP/1.0 may omit.
    pub(crate) fn link_root<'a>(
        &'a self,
        https: bool,
        authority: Option<Authority<'a>>,
    ) -> LinkRoot<'a> {
        match (&self.public, authority) {
            (Some(public), _) => public.into(),
            (None, Some(authority)) => LinkRoot {
                https,
                host_and_path: authority.as_bytes(),
            },
            (None, None) => (&self.local).into(),
        }
    }
}
