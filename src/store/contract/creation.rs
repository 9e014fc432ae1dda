//! The creation of an animal, and the idempotency record that makes a retry of it safe.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::key::KeyId;
use crate::pet::{NewPet, Pet, PetId};

#[derive(Clone, Debug)]
pub struct Creation {
    pub pet: NewPet,
    /// Makes a retry safe, if the request had an `Idempotency-Key`.
    pub idempotency: Option<IdempotencyRecord>,
}

/// Identifies a creation, so that a retry of it creates nothing.
#[derive(Clone, Debug)]
pub struct IdempotencyRecord {
    /// The key that authenticated the request.
    pub key: KeyId,
    /// The SHA-256 of the client's `Idempotency-Key`, which may be secret.
    pub idempotency_key: [u8; 32],
    /// The SHA-256 of the animal, not of the bytes that described it.
    pub fingerprint: [u8; 32],
    /// When the request arrived.
    pub created_at: Timestamp,
}

impl IdempotencyRecord {
    /// How long a creation can be retried.
    pub const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

    /// The time after which an earlier attempt counts, in milliseconds.
    pub(crate) fn since(&self) -> i64 {
        self.created_at.minus(Self::RETENTION).as_millis()
    }

    /// The outcome for `pet` if an earlier attempt, with this fingerprint, created the animal `id`. The same fingerprint means the
    /// same animal, so the response of the first attempt can be made again from the retry.
    pub(crate) fn replay(&self, pet: NewPet, id: PetId, fingerprint: [u8; 32]) -> CreationOutcome {
        match fingerprint == self.fingerprint {
            true => CreationOutcome::Replayed(pet.with_id(id)),
            false => CreationOutcome::Mismatch,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreationOutcome {
    /// The animal is on disk.
    New(Pet),
    /// It was created by an earlier attempt.
    Replayed(Pet),
    /// The same `Idempotency-Key` was used before with another animal. Nothing was created.
    Mismatch,
}
