//! The `Idempotency-Key`: its format, and which requests with one are in flight. Completed ones are in the store.

use std::collections::HashSet;
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use super::error::ApiError;
use crate::http::{Field, Head};
use crate::key::KeyId;
use crate::mutex::lock;
use crate::pet::NewPet;
use crate::store::IdempotencyRecord;

/// Reads the header: none, or 1 to 255 visible ASCII characters, once. Only its SHA-256 is used further.
pub(super) fn key_hash(head: &Head<'_>) -> Result<Option<[u8; 32]>, ApiError> {
    match head.idempotency_key {
        Field::Absent => Ok(None),
        Field::One(key)
            if (1..=255).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic) =>
        {
            Ok(Some(Sha256::digest(key).into()))
        }
        _ => Err(ApiError::InvalidParameter {
            name: "Idempotency-Key",
            problem: "must be 1 to 255 visible ASCII characters, and given at most once".into(),
        }),
    }
}

/// The SHA-256 of an animal's category, status and name, the same for all bodies with the same animal. It is unambiguous: the category
/// has a fixed length, and a zero byte ends the status.
pub(super) fn fingerprint(pet: &NewPet) -> [u8; 32] {
    Sha256::new()
        .chain_update(pet.category_id.to_be_bytes())
        .chain_update(pet.status.as_str())
        .chain_update([0])
        .chain_update(pet.name.as_str())
        .finalize()
        .into()
}

/// The requests with an `Idempotency-Key` that are in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashSet<(KeyId, [u8; 32])>>);

impl InFlight {
    /// Marks a creation as in flight until the guard is dropped, unless it already is.
    pub(super) fn enter(&self, record: &IdempotencyRecord) -> Result<InFlightGuard<'_>, ApiError> {
        let request = (record.key, record.idempotency_key);
        match lock(&self.0).insert(request) {
            true => Ok(InFlightGuard { all: self, request }),
            false => Err(ApiError::IdempotencyConflict),
        }
    }
}

pub(super) struct InFlightGuard<'a> {
    all: &'a InFlight,
    request: (KeyId, [u8; 32]),
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.request);
    }
}
