//! `POST /pets`: adds an animal, at most once for each `Idempotency-Key`. A 201 means that it is on disk.

use bytes::Bytes;
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};

use super::url::LinkBase;
use super::{Answer, Api, ApiError, answer, body, header, idempotency};
use crate::clock::Timestamp;
use crate::http::RequestBody;
use crate::key::KeyId;
use crate::pet::NewPet;
use crate::store::{Created, Retry};

impl Api {
    pub(super) async fn create_pet(
        &self,
        headers: &HeaderMap,
        body: &mut RequestBody,
        caller: KeyId,
        base: LinkBase<'_>,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        let token = idempotency::token(headers)?;
        let body = body::read_json(headers, body, self.body_timeout).await?;
        let pet = NewPet::from_json(&body)?;

        let retry = token.map(|token| Retry {
            key: caller,
            token,
            fingerprint: idempotency::fingerprint(&pet),
            now,
        });
        let _in_flight = retry
            .as_ref()
            .map(|retry| self.in_flight.enter(retry))
            .transpose()?;
        let (pet, replayed) = match self.store.create(pet, retry).await? {
            Created::New(pet) => (pet, false),
            Created::Replayed(pet) => (pet, true),
            Created::Mismatch => return Err(ApiError::IdempotencyMismatch),
        };

        let mut json = Vec::with_capacity(128);
        pet.write_json(&mut json);
        let mut answer = answer::json(StatusCode::CREATED, Bytes::from(json));
        let headers = answer.headers_mut();
        headers.insert(
            LOCATION,
            header::value(format!("{base}/v1/pets/{}", pet.id)),
        );
        if replayed {
            headers.insert(header::IDEMPOTENT_REPLAYED, header::TRUE);
        }
        Ok(answer)
    }
}
