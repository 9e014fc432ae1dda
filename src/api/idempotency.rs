//! The `Idempotency-Key`: its form, and which of them are being worked on right now.
//! What became of those that are done is the store's to know.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::error::ApiError;
use crate::http::{Field, Head};
use crate::key::KeyId;
use crate::pet::NewPet;
use crate::store::Retry;

/// Reads the header: none, or 1 to 255 visible ASCII characters, once. Only its SHA-256 goes further.
pub(super) fn token(head: &Head<'_>) -> Result<Option<[u8; 32]>, ApiError> {
    match head.idempotency_key {
        Field::Absent => Ok(None),
        Field::One(token)
            if (1..=255).contains(&token.len()) && token.iter().all(u8::is_ascii_graphic) =>
        {
            Ok(Some(Sha256::digest(token).into()))
        }
        _ => Err(ApiError::InvalidParameter {
            name: "Idempotency-Key",
            problem: "must be 1 to 255 visible ASCII characters, and given at most once".into(),
        }),
    }
}

/// What tells one animal from another: the SHA-256 of its category, its status and its name. The bytes that described it do not
/// matter. The parts cannot run into each other: the first has a fixed length, the second is a word, and the third is the rest.
pub(super) fn fingerprint(pet: &NewPet) -> [u8; 32] {
    Sha256::new()
        .chain_update(pet.category_id.to_be_bytes())
        .chain_update(pet.status.word())
        .chain_update([0])
        .chain_update(pet.name.as_str())
        .finalize()
        .into()
}

/// The retries whose first try is not answered yet.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashSet<(KeyId, [u8; 32])>>);

impl InFlight {
    /// Marks a creation as being worked on until the mark is dropped; or says that it already is.
    pub(super) fn enter(&self, retry: &Retry) -> Result<Mark<'_>, ApiError> {
        let name = (retry.key, retry.token);
        if self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name)
        {
            Ok(Mark { all: self, name })
        } else {
            Err(ApiError::IdempotencyConflict)
        }
    }
}

/// One creation being worked on.
#[derive(Debug)]
pub(super) struct Mark<'a> {
    all: &'a InFlight,
    name: (KeyId, [u8; 32]),
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.all
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.name);
    }
}
