//! A cache of JSON that a creation cannot make stale: animals that exist, and full pages with more after them. Bounded by bytes.
//! Each thread also keeps its most-read entries, so that cores do not share locks and reference counts.

mod local;

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache as Bounded;

use super::contract::Page;
use crate::page::PetQuery;
use crate::pet::PetId;
use local::CacheKey;

/// The capacity in bytes, for pages and for animals each.
const CAPACITY: u64 = 24 * 1024 * 1024;

/// The overhead of an entry besides its JSON.
const OVERHEAD: u64 = 160;

pub(super) struct Cache {
    /// Part of every entry's key. A new one invalidates all entries, including those that a slow reader adds later with what it
    /// read before the change.
    generation: AtomicU64,
    pets: Bounded<(u64, PetId), Bytes, ByBytes>,
    pages: Bounded<(u64, PetQuery), Page, ByBytes>,
}

/// A generation that no cache of this process has had: thread-local entries belong to one cache only.
fn next_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

impl Cache {
    pub(super) fn new() -> Self {
        Self {
            generation: AtomicU64::new(next_generation()),
            pets: Bounded::with_weighter(expected_entries(100), CAPACITY, ByBytes),
            pages: Bounded::with_weighter(expected_entries(1_500), CAPACITY, ByBytes),
        }
    }

    /// The slot of an animal. To be taken before the engine is read.
    pub(super) fn pet(&self, id: PetId) -> CacheSlot<'_, PetId> {
        CacheSlot {
            entries: &self.pets,
            key: (self.current_generation(), id),
        }
    }

    /// The slot of a page. To be taken before the engine is read.
    pub(super) fn page(&self, query: PetQuery) -> CacheSlot<'_, PetQuery> {
        CacheSlot {
            entries: &self.pages,
            key: (self.current_generation(), query),
        }
    }

    pub(super) fn clear(&self) {
        self.generation.store(next_generation(), Ordering::SeqCst);
        self.pets.clear();
        self.pages.clear();
    }

    /// For each kind of entry its name, the number of entries, and their bytes.
    pub(super) fn size(&self) -> [(&'static str, usize, u64); 2] {
        [
            ("animals", self.pets.len(), self.pets.weight()),
            ("pages", self.pages.len(), self.pages.weight()),
        ]
    }

    fn current_generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
}

fn expected_entries(json_bytes: u64) -> usize {
    usize::try_from(CAPACITY / (json_bytes + OVERHEAD)).unwrap_or(usize::MAX)
}

/// The slot of one entry, in the generation of the lookup.
pub(super) struct CacheSlot<'a, K: CacheKey> {
    entries: &'a Bounded<(u64, K), K::Value, ByBytes>,
    key: (u64, K),
}

impl<K: CacheKey + Hash> CacheSlot<'_, K>
where
    ByBytes: Weighter<(u64, K), K::Value>,
{
    pub(super) fn get(&self) -> Option<K::Value> {
        local::get(self.key, || self.entries.get(&self.key))
    }

    pub(super) fn put(&self, value: K::Value) {
        self.entries.insert(self.key, value);
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
    use crate::page::Cursor;
    use crate::pet::PetStatus;

    #[test]
    fn an_entry_read_before_a_change_is_never_seen_after_it() {
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
    fn a_thread_local_entry_is_not_seen_after_a_change_nor_in_another_cache() {
        let (cache, other) = (Cache::new(), Cache::new());
        let page = |text: &'static str| Page {
            json: Bytes::from_static(text.as_bytes()),
            next: None,
        };
        let read = |cache: &Cache| {
            // The second time it is read from the shared cache it becomes thread-local.
            let reads = [(); 3].map(|()| cache.page(PetQuery::default()).get());
            reads.map(|page| page.map(|page| page.json))
        };
        cache.page(PetQuery::default()).put(page("old"));
        assert!(read(&cache).iter().all(|json| *json == Some("old".into())));
        assert_eq!(read(&other), [None, None, None]);
        cache.clear();
        assert_eq!(read(&cache), [None, None, None]);
        cache.page(PetQuery::default()).put(page("new"));
        assert!(read(&cache).iter().all(|json| *json == Some("new".into())));
    }

    #[test]
    fn an_entry_that_is_read_again_becomes_thread_local_and_one_that_is_read_once_does_not_replace_it()
     {
        let cache = Cache::new();
        let pets: Vec<_> = (0..1_000).map(PetId).collect();
        for id in &pets {
            cache.pet(*id).put(Bytes::from(id.0.to_string()));
        }
        let long = cache.pet(PetId(-1));
        long.put(Bytes::from(vec![b'x'; 100_000]));
        for hot in [cache.pet(pets[7]), long] {
            hot.get();
            hot.get();
        }
        for id in &pets {
            assert_eq!(cache.pet(*id).get(), Some(Bytes::from(id.0.to_string())));
        }
        // Only thread-local entries are left.
        cache.pets.clear();
        let local = pets.iter().filter(|id| cache.pet(**id).get().is_some());
        assert_eq!(local.collect::<Vec<_>>(), [&pets[7]]);
        assert_eq!(cache.pet(PetId(-1)).get(), None, "it is too long");
    }

    #[test]
    fn it_is_bounded_by_bytes() {
        let cache = Cache::new();
        for id in 0..200_000 {
            cache.pet(PetId(id)).put(Bytes::from(vec![b'x'; 1_000]));
        }
        assert!(cache.pets.weight() <= CAPACITY);
        assert!(cache.pets.len() > 10_000);
    }

    #[test]
    fn its_size_is_the_number_of_entries_and_their_bytes_with_the_overhead() {
        let cache = Cache::new();
        assert_eq!(cache.size(), [("animals", 0, 0), ("pages", 0, 0)]);
        let json = Bytes::from(vec![b'x'; 1_000]);
        cache.pet(PetId(1)).put(json.clone());
        cache.pet(PetId(2)).put(json.clone());
        cache
            .page(PetQuery::default())
            .put(Page { json, next: None });
        let entry = 1_000 + OVERHEAD;
        assert_eq!(
            cache.size(),
            [("animals", 2, 2 * entry), ("pages", 1, entry)]
        );
        assert_eq!(expected_entries(1_000) as u64, CAPACITY / entry);
    }

    #[test]
    fn a_thread_keeps_many_entries_at_once() {
        let cache = Cache::new();
        let pets: Vec<_> = (1..=8).map(PetId).collect();
        for id in &pets {
            cache.pet(*id).put(Bytes::from_static(b"{}"));
        }
        let query = |limit: &str, status, after| PetQuery {
            limit: limit.parse().unwrap(),
            status,
            cursor: Cursor::after(after),
        };
        let available = Some(PetStatus::Available);
        let pages = [
            query("20", None, 0),
            query("20", available, 0),
            query("20", Some(PetStatus::Pending), 0),
            query("20", Some(PetStatus::Sold), 0),
            query("21", None, 0),
            query("100", None, 0),
            query("20", None, 20),
            query("20", None, 40),
        ];
        for query in pages {
            cache.page(query).put(Page {
                json: Bytes::from_static(b"[]"),
                next: None,
            });
        }
        for _ in 0..2 {
            pets.iter().for_each(|id| drop(cache.pet(*id).get()));
            pages
                .iter()
                .for_each(|query| drop(cache.page(*query).get()));
        }
        // Only thread-local entries are left.
        cache.pets.clear();
        cache.pages.clear();
        let pets = pets.iter().filter(|id| cache.pet(**id).get().is_some());
        let pages = pages
            .iter()
            .filter(|query| cache.page(**query).get().is_some());
        assert_eq!((pets.count(), pages.count()), (8, 8));
    }
}
