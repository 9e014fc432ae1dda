//! The entries that one thread reads most, each with a reference count that only this thread writes. A hot entry of the shared
//! cache costs every core that reads it a lock and a count that all the others write too.

use std::cell::RefCell;
use std::thread::LocalKey;

use bytes::Bytes;

use crate::page::PetQuery;
use crate::pet::PetId;
use crate::store::contract::Page;

/// How many entries of a kind a thread keeps.
const SLOTS: usize = 64;

/// The maximum length of JSON that is kept: with it a thread holds at most 1 MiB of a kind beyond the bound of the shared cache.
const MAX_JSON: usize = 16 * 1024;

/// The key of an entry that a thread may keep.
pub(crate) trait CacheKey: Copy + Eq + 'static {
    type Value: Clone + 'static;

    /// The entries of this kind that the thread keeps.
    fn local_entries() -> &'static LocalKey<RefCell<LocalEntries<Self>>>;

    /// The hash that chooses the slot.
    fn slot_hash(&self) -> u64;

    /// The same value with a separate reference count, unless it is too long to be kept.
    fn detached(value: &Self::Value) -> Option<Self::Value>;
}

/// The entries of one kind that a thread keeps. Empty until it reads its first one.
pub(crate) struct LocalEntries<K: CacheKey>(Vec<LocalSlot<K>>);

/// A slot, shared by all keys with the same slot number.
struct LocalSlot<K: CacheKey> {
    kept: Option<((u64, K), K::Value)>,
    /// The key that was last read from the shared cache. If that happens again, its entry is kept here: one that is read once
    /// does not replace one that is read often.
    candidate: Option<(u64, K)>,
}

/// Returns the entry with this key, of this generation: the thread-local one, or the shared one.
pub(super) fn get<K: CacheKey>(
    key: (u64, K),
    shared: impl FnOnce() -> Option<K::Value>,
) -> Option<K::Value> {
    K::local_entries().with_borrow_mut(|LocalEntries(slots)| {
        if slots.is_empty() {
            slots.resize_with(SLOTS, || LocalSlot {
                kept: None,
                candidate: None,
            });
        }
        // The highest bits of a product depend on all bits of the hash.
        let product = key.1.slot_hash().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = &mut slots[(product >> (u64::BITS - SLOTS.ilog2())) as usize];
        if let Some((kept, value)) = &slot.kept
            && *kept == key
        {
            return Some(value.clone());
        }
        let value = shared()?;
        match slot.candidate.replace(key) == Some(key) {
            true => slot.keep(key, value),
            false => Some(value),
        }
    })
}

impl<K: CacheKey> LocalSlot<K> {
    #[cold]
    fn keep(&mut self, key: (u64, K), value: K::Value) -> Option<K::Value> {
        if let Some(own) = K::detached(&value) {
            self.kept = Some((key, own));
        }
        Some(value)
    }
}

thread_local! {
    static PETS: RefCell<LocalEntries<PetId>> = const { RefCell::new(LocalEntries(Vec::new())) };
    static PAGES: RefCell<LocalEntries<PetQuery>> = const { RefCell::new(LocalEntries(Vec::new())) };
}

impl CacheKey for PetId {
    type Value = Bytes;

    fn local_entries() -> &'static LocalKey<RefCell<LocalEntries<Self>>> {
        &PETS
    }

    fn slot_hash(&self) -> u64 {
        self.0.cast_unsigned()
    }

    fn detached(json: &Bytes) -> Option<Bytes> {
        (json.len() <= MAX_JSON).then(|| Bytes::from_owner(json.clone()))
    }
}

impl CacheKey for PetQuery {
    type Value = Page;

    fn local_entries() -> &'static LocalKey<RefCell<LocalEntries<Self>>> {
        &PAGES
    }

    fn slot_hash(&self) -> u64 {
        let status = self.status.map_or(0, |status| status as u64 + 1);
        (self.cursor.id().cast_unsigned() << 9) ^ ((self.limit.get() as u64) << 2) ^ status
    }

    fn detached(page: &Page) -> Option<Page> {
        Some(Page {
            json: PetId::detached(&page.json)?,
            next: page.next,
        })
    }
}
