//! The requests of single keys by status, counted while a dashboard shows them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::key::KeyId;
use crate::mutex::lock;

/// The keys that a dashboard shows. Requests only read `open_watches` while there are none, so cores share nothing that is written.
#[derive(Debug, Default)]
pub(crate) struct WatchedKeys {
    open_watches: AtomicUsize,
    watches: Mutex<Watches>,
}

#[derive(Debug, Default)]
struct Watches {
    last: u64,
    open: HashMap<u64, (KeyId, BTreeMap<u16, u64>)>,
}

impl WatchedKeys {
    /// Counts a request, if its key is watched.
    #[inline]
    pub(crate) fn record(&self, key: Option<KeyId>, status: u16) {
        if self.open_watches.load(Ordering::Relaxed) > 0
            && let Some(key) = key
        {
            self.count(key, status);
        }
    }

    #[cold]
    fn count(&self, key: KeyId, status: u16) {
        for (watched, counts) in lock(&self.watches).open.values_mut() {
            if *watched == key {
                *counts.entry(status).or_default() += 1;
            }
        }
    }

    /// Counts the requests of a key until the watch is dropped.
    pub(crate) fn watch(self: &Arc<Self>, key: KeyId) -> Watch {
        let mut watches = lock(&self.watches);
        watches.last += 1;
        let id = watches.last;
        watches.open.insert(id, (key, BTreeMap::new()));
        self.open_watches
            .store(watches.open.len(), Ordering::Relaxed);
        Watch {
            keys: Arc::clone(self),
            id,
        }
    }
}

/// A dashboard that shows a key, until this is dropped.
pub(crate) struct Watch {
    keys: Arc<WatchedKeys>,
    id: u64,
}

impl Watch {
    /// The requests since the watch began, by status.
    pub(crate) fn counts(&self) -> BTreeMap<u16, u64> {
        let watches = lock(&self.keys.watches);
        let counts = watches.open.get(&self.id).map(|(_, counts)| counts.clone());
        counts.unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watches = lock(&self.keys.watches);
        watches.open.remove(&self.id);
        self.keys
            .open_watches
            .store(watches.open.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_key_are_counted_while_it_is_watched() {
        let keys = Arc::new(WatchedKeys::default());
        keys.record(Some(KeyId(1)), 200);
        let watch = keys.watch(KeyId(1));
        let later = keys.watch(KeyId(1));
        for (key, status) in [
            (Some(1), 429),
            (Some(1), 200),
            (Some(1), 200),
            (Some(2), 200),
            (None, 401),
        ] {
            keys.record(key.map(KeyId), status);
        }
        assert_eq!(watch.counts(), BTreeMap::from([(200, 2), (429, 1)]));
        drop(watch);
        assert_eq!(later.counts(), BTreeMap::from([(200, 2), (429, 1)]));
        drop(later);
        assert_eq!(keys.open_watches.load(Ordering::Relaxed), 0);
        assert!(lock(&keys.watches).open.is_empty());
    }
}
