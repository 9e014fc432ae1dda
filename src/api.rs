//! The operations: typed input, one call to the store, an answer. Knows HTTP and the store; is only ever asked by callers
//! who have been let in, and does not know how.

pub mod answer;
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
mod query;
pub mod url;

pub use answer::Answer;
pub use error::ApiError;
pub use operation::{Operation, Route};

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::request::Parts;

use crate::clock::Timestamp;
use crate::key::KeyId;
use crate::store::Store;
use idempotency::InFlight;
use url::BaseUrl;

/// The operations on one store.
#[derive(Debug)]
pub struct Api {
    store: Arc<Store>,
    base: BaseUrl,
    /// How long a body may take to arrive, in all.
    body_timeout: Duration,
    in_flight: InFlight,
    get_pet_frame: frame::Frame,
}

impl Api {
    /// Operations that write links below `base`.
    pub fn new(store: Arc<Store>, base: BaseUrl, body_timeout: Duration) -> Self {
        let get_pet_frame = get_pet::frame(&base);
        Self {
            store,
            base,
            body_timeout,
            in_flight: InFlight::default(),
            get_pet_frame,
        }
    }

    /// Performs an operation for the holder of a key.
    pub async fn perform(
        &self,
        operation: Operation<'_>,
        head: &Parts,
        body: Incoming,
        caller: KeyId,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        match operation {
            Operation::ListPets => self.list_pets(head.uri.query()).await,
            // In a box of its own: what a creation has to remember would make every read dearer.
            Operation::CreatePet => {
                Box::pin(self.create_pet(&head.headers, body, caller, now)).await
            }
            Operation::GetPet { id } => self.get_pet(id, now).await,
            Operation::ListOrders => self.list_orders(head.uri.query()).await,
        }
    }

    /// The answer where a request failed, with the headers that every answer of its operation carries.
    pub fn refuse(&self, route: &Route<'_>, error: &ApiError) -> Answer {
        match route {
            Route::Operation(Operation::GetPet { .. }) => error.answer_in(&self.get_pet_frame),
            _ => error.answer(),
        }
    }
}
