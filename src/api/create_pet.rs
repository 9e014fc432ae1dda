//! `POST /pets`: adds an animal, at most once for each `Idempotency-Key`. A 201 means that it is on disk.

use http::StatusCode;
use http::header::LOCATION;

use super::url::LinkRoot;
use super::{Api, ApiError, body, idempotency};
use crate::clock::Timestamp;
use crate::http::{Head, RequestBody, Response, header};
use crate::key::KeyId;
use crate::pet::NewPet;
use crate::store::{CreationOutcome, IdempotencyRecord};

impl Api {
    pub(super) async fn create_pet(
        &self,
        head: &Head<'_>,
        body: &mut RequestBody,
        key: KeyId,
        root: LinkRoot<'_>,
        now: Timestamp,
    ) -> Result<Response, ApiError> {
        let idempotency_key = idempotency::key_hash(head)?;
        let body = body::read_json(head, body, self.body_timeout).await?;
        let pet = NewPet::from_json(&body)?;

        let record = idempotency_key.map(|idempotency_key| IdempotencyRecord {
            key,
            idempotency_key,
            fingerprint: idempotency::fingerprint(&pet),
            created_at: now,
        });
        let _in_flight = record
            .as_ref()
            .map(|record| self.in_flight.enter(record))
            .transpose()?;
        let (pet, replayed) = match self.store.create(pet, record).await? {
            CreationOutcome::New(pet) => (pet, false),
            CreationOutcome::Replayed(pet) => (pet, true),
            CreationOutcome::Mismatch => return Err(ApiError::IdempotencyMismatch),
        };

        let mut json = Vec::with_capacity(128);
        pet.write_json(&mut json);
        let location = header::value(format!("{root}/v1/pets/{}", pet.id));
        let response = Response::json(StatusCode::CREATED, json.into()).with(LOCATION, location);
        Ok(match replayed {
            true => response.with(header::IDEMPOTENT_REPLAYED, header::TRUE),
            false => response,
        })
    }
}
