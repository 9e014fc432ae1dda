//! Which keys have been used since their use was last stored. Raised once a key and second, not once a request.

use std::sync::{Arc, Mutex, PoisonError};

use crate::access::Key;
use crate::store::{self, Store};

/// Keys whose meters have something to tell.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Vec<Arc<Key>>>);

impl Ledger {
    /// Notes that a key's meter has something to tell.
    pub(super) fn note(&self, key: &Arc<Key>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(key));
    }

    /// Stores what the meters have to tell. What cannot be stored is kept for the next time.
    pub(super) async fn flush(&self, store: &Store) -> store::Result<()> {
        let keys = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let uses: Vec<_> = keys
            .into_iter()
            .map(|key| (key.meter.read_out(), key))
            .collect();
        let rows: Vec<_> = uses
            .iter()
            .flat_map(|(uses, key)| uses.iter().map(|on| (key.id, *on)))
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let stored = store.record_use(rows).await;
        if stored.is_err() {
            for (uses, key) in uses {
                key.meter.put_back(uses);
                self.note(&key);
            }
        }
        stored
    }
}
