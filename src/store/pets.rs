//! The contract for animals.

use bytes::Bytes;

use super::Store;
use super::contract::{Creation, CreationOutcome, IdempotencyRecord, Page, Result};
use super::engine::{Engine, dispatch, traced};
use super::row_stream::{RowStream, row_stream};
use crate::clock::Timestamp;
use crate::page::PetQuery;
use crate::pet::{NewPet, Pet, PetId, PetStatus};

impl Store {
    /// Adds an animal. MUST return only when it would survive a crash; its ID MUST be larger than that of every animal committed
    /// before. With an [`IdempotencyRecord`], MUST create at most one animal within [`IdempotencyRecord::RETENTION`].
    pub async fn create(
        &self,
        pet: NewPet,
        idempotency: Option<IdempotencyRecord>,
    ) -> Result<CreationOutcome> {
        traced!("INSERT" "pets", self.create(Creation { pet, idempotency }))
    }

    /// An animal as finished JSON.
    pub async fn pet(&self, id: PetId) -> Result<Option<Bytes>> {
        let slot = self.cache.pet(id);
        if let Some(json) = slot.get() {
            return Ok(Some(json));
        }
        let json = traced!("SELECT" "pets", self.pet(id))?;
        if let Some(json) = &json {
            self.misses.0.add(1);
            slot.put(json.clone());
        }
        Ok(json)
    }

    /// An animal as it is now: the cache follows changes only at the next poll.
    pub async fn current_pet(&self, id: PetId) -> Result<Option<Bytes>> {
        traced!("SELECT" "pets", self.pet(id))
    }

    /// A page of animals in ascending order of IDs.
    pub async fn page(&self, query: PetQuery) -> Result<Page> {
        let slot = self.cache.page(query);
        if let Some(page) = slot.get() {
            return Ok(page);
        }
        let page = traced!("SELECT" "pets", self.page(query))?;
        self.misses.0.add(1);
        // A page with nothing after it grows by the next creation, so it is not cached.
        if page.next.is_some() {
            slot.put(page.clone());
        }
        Ok(page)
    }

    /// A page as it is now, like [`current_pet`](Self::current_pet).
    pub async fn current_page(&self, query: PetQuery) -> Result<Page> {
        traced!("SELECT" "pets", self.page(query))
    }

    /// All animals, or those of one status, in ascending order of IDs.
    pub fn pets(&self, status: Option<PetStatus>) -> RowStream<'_, Pet> {
        row_stream(async move |last: Option<Pet>| {
            let after = last.map_or(PetId(i64::MIN), |pet| pet.id);
            dispatch!(self.pets_after(after, status))
        })
    }

    /// How many animals have each status, in the order of [`PetStatus::ALL`]. It reads an entry of an index for each animal: a second
    /// for ten million.
    pub async fn count_pets(&self) -> Result<[i64; PetStatus::ALL.len()]> {
        dispatch!(self.count_pets())
    }

    /// All animals, or those of one status, as they are at one point in time. MUST NOT delay a writer; the snapshot is held until the
    /// stream ends.
    pub async fn pets_snapshot(&self, status: Option<PetStatus>) -> Result<RowStream<'_, Pet>> {
        let after = |last: Option<Pet>| last.map_or(PetId(i64::MIN), |pet| pet.id);
        Ok(match &self.engine {
            Engine::Sqlite(engine) => {
                let snapshot = engine.snapshot()?;
                row_stream(async move |last| snapshot.pets_after(after(last), status))
            }
            Engine::Postgres(engine) => {
                let snapshot = engine.snapshot().await?;
                row_stream(async move |last| snapshot.pets_after(after(last), status).await)
            }
        })
    }

    /// Clears the cache: an animal has changed, or may have.
    pub fn clear_cache(&self) {
        self.cache.clear();
    }

    /// Deletes some of the idempotency records before this time: so few that a creation waits for it a few milliseconds at most.
    /// Returns whether there may be more.
    pub async fn sweep_idempotency(&self, before: Timestamp) -> Result<bool> {
        dispatch!(self.sweep_idempotency(before))
    }
}
