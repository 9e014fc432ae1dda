//! The operations: typed input, one call to the store, an answer. Knows HTTP and the store; is only ever asked by callers
//! who have been let in, and does not know how.

pub mod answer;
pub mod authority;
mod body;
mod create_pet;
pub mod docs;
pub mod document;
pub mod error;
mod frame;
mod get_pet;
pub mod header;
mod idempotency;
mod link;
mod list_orders;
mod list_pets;
pub mod operation;
pub mod percent;
mod query;
pub mod url;

pub use answer::Answer;
pub use error::ApiError;
pub use operation::{Operation, Route};

use std::sync::Arc;
use std::time::Duration;

use hyper::http::request::Parts;

use crate::clock::Timestamp;
use crate::http::RequestBody;
use crate::key::KeyId;
use crate::store::Store;
use authority::Authority;
use idempotency::InFlight;
use url::{BaseUrl, LinkBase};

/// The operations on one store.
#[derive(Debug)]
pub struct Api {
    store: Arc<Store>,
    addresses: Addresses,
    /// How long a body may take to arrive, in all.
    body_timeout: Duration,
    in_flight: InFlight,
}

/// Where links may lead.
#[derive(Debug)]
pub struct Addresses {
    /// Where the operator says, whatever a request says.
    pub public: Option<BaseUrl>,
    /// The server's own, for a request that names none.
    pub local: BaseUrl,
}

/// Where a request was sent, as far as it says, and whether by HTTPS.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// Whether the client spoke HTTPS.
    pub https: bool,
    /// The host that it named.
    pub authority: Option<Authority<'a>>,
}

impl Api {
    /// Operations that write links below these addresses.
    pub fn new(store: Arc<Store>, addresses: Addresses, body_timeout: Duration) -> Self {
        Self {
            store,
            addresses,
            body_timeout,
            in_flight: InFlight::default(),
        }
    }

    /// Performs an operation for the holder of a key.
    pub async fn perform(
        &self,
        operation: Operation<'_>,
        head: &Parts,
        destination: Destination<'_>,
        body: &mut RequestBody,
        caller: KeyId,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        let base = self.addresses.base(destination);
        match operation {
            Operation::ListPets => self.list_pets(head.uri.query(), base).await,
            // In a box of its own: what a creation has to remember would make every read dearer.
            Operation::CreatePet => {
                Box::pin(self.create_pet(&head.headers, body, caller, base, now)).await
            }
            Operation::GetPet { id } => self.get_pet(id, base, now).await,
            Operation::ListOrders => self.list_orders(head.uri.query(), base).await,
        }
    }

    /// The response to a request that failed, with the headers that every response of its operation carries.
    pub fn refuse<'a>(
        &'a self,
        route: &Route<'_>,
        destination: impl FnOnce() -> Destination<'a>,
        error: &ApiError,
    ) -> Answer {
        match route {
            Route::Operation(Operation::GetPet { .. }) => {
                let base = self.addresses.base(destination());
                get_pet::in_frame(base, |frame| error.answer_in(frame))
            }
            _ => error.answer(),
        }
    }
}

impl Addresses {
    fn base<'a>(&'a self, destination: Destination<'a>) -> LinkBase<'a> {
        match (&self.public, destination.authority) {
            (Some(public), _) => public.into(),
            (None, Some(authority)) => LinkBase::requested(destination.https, authority),
            (None, None) => (&self.local).into(),
        }
    }
}
