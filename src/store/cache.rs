//! Finished JSON of what cannot go stale by a creation: animals that exist, and full pages with more after them.
//! Bounded by bytes.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache as Bounded;

use super::contract::Page;
use crate::page::PetQuery;
use crate::pet::PetId;

/// Bytes of JSON kept for pages, and for animals: each.
const ROOM: u64 = 24 * 1024 * 1024;

/// What an entry costs beside its JSON.
const OVERHEAD: u64 = 160;

/// The cache of one store.
#[derive(Debug)]
pub(super) struct Cache {
    /// Part of every entry's name. Raising it hides all entries at once, and also what a reader puts in late
    /// that it had read before the change.
    generation: AtomicU64,
    pets: Bounded<(u64, PetId), Bytes, ByBytes>,
    pages: Bounded<(u64, PetQuery), Page, ByBytes>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self {
            generation: AtomicU64::new(0),
            pets: Bounded::with_weighter(expected(100), ROOM, ByBytes),
            pages: Bounded::with_weighter(expected(1_500), ROOM, ByBytes),
        }
    }

    /// The place of an animal. To be taken before the engine is read.
    pub(super) fn pet(&self, id: PetId) -> Place<'_, PetId, Bytes> {
        Place {
            entries: &self.pets,
            name: (self.now(), id),
        }
    }

    /// The place of a page. To be taken before the engine is read.
    pub(super) fn page(&self, query: PetQuery) -> Place<'_, PetQuery, Page> {
        Place {
            entries: &self.pages,
            name: (self.now(), query),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.pets.clear();
        self.pages.clear();
    }

    /// What it holds: the kind of entries, how many, and their bytes.
    pub(super) fn size(&self) -> [(&'static str, usize, u64); 2] {
        [
            ("animals", self.pets.len(), self.pets.weight()),
            ("pages", self.pages.len(), self.pages.weight()),
        ]
    }

    fn now(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
}

fn expected(json: u64) -> usize {
    usize::try_from(ROOM / (json + OVERHEAD)).unwrap_or(usize::MAX)
}

/// Where one thing is kept, in the generation in which it was asked for.
pub(super) struct Place<'a, K, V> {
    entries: &'a Bounded<(u64, K), V, ByBytes>,
    name: (u64, K),
}

impl<K: Eq + Hash + Copy, V: Clone> Place<'_, K, V>
where
    ByBytes: Weighter<(u64, K), V>,
{
    pub(super) fn get(&self) -> Option<V> {
        self.entries.get(&self.name)
    }

    pub(super) fn put(&self, value: V) {
        self.entries.insert(self.name, value);
    }
}

#[derive(Clone, Debug)]
pub(super) struct ByBytes;

impl Weighter<(u64, PetId), Bytes> for ByBytes {
    fn weight(&self, _: &(u64, PetId), json: &Bytes) -> u64 {
        json.len() as u64 + OVERHEAD
    }
}

impl Weighter<(u64, PetQuery), Page> for ByBytes {
    fn weight(&self, _: &(u64, PetQuery), page: &Page) -> u64 {
        page.json.len() as u64 + OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_never_seen_after_it() {
        let cache = Cache::new();
        let slow_reader = cache.pet(PetId(1));
        cache.clear();
        slow_reader.put(Bytes::from_static(b"stale"));
        assert_eq!(cache.pet(PetId(1)).get(), None);
        cache.pet(PetId(1)).put(Bytes::from_static(b"fresh"));
        assert_eq!(
            cache.pet(PetId(1)).get(),
            Some(Bytes::from_static(b"fresh"))
        );
    }

    #[test]
    fn it_is_bounded_by_bytes() {
        let cache = Cache::new();
        for id in 0..200_000 {
            cache.pet(PetId(id)).put(Bytes::from(vec![b'x'; 1_000]));
        }
        assert!(cache.pets.weight() <= ROOM);
        assert!(cache.pets.len() > 10_000);
    }
}
