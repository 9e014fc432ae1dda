//! What the store has yet to be told: which keys have been used, once a key and second and not once a request, and which
//! have been banned.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::access::Key;
use crate::key::KeyId;
use crate::limit::Ban;
use crate::store::{self, Store};

/// What is yet to be told.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Keys whose meters have something to tell.
    used: Mutex<Vec<Arc<Key>>>,
    bans: Mutex<Vec<(KeyId, Ban)>>,
}

impl Ledger {
    /// Notes that a key's meter has something to tell.
    pub(super) fn note_use(&self, key: &Arc<Key>) {
        lock(&self.used).push(Arc::clone(key));
    }

    /// Notes that a key is banned.
    pub(super) fn note_ban(&self, key: KeyId, ban: Ban) {
        lock(&self.bans).push((key, ban));
    }

    /// Tells the store everything. What it does not take is kept for the next time.
    pub(super) async fn flush(&self, store: &Store) -> store::Result<()> {
        let bans = self.flush_bans(store).await;
        self.flush_uses(store).await.and(bans)
    }

    /// Tells the store of the bans.
    pub(super) async fn flush_bans(&self, store: &Store) -> store::Result<()> {
        let mut taken = Taken {
            bans: std::mem::take(&mut *lock(&self.bans)),
            from: &self.bans,
        };
        while let Some((key, ban)) = taken.bans.last().copied() {
            store.record_ban(key, ban).await?;
            taken.bans.pop();
        }
        Ok(())
    }

    async fn flush_uses(&self, store: &Store) -> store::Result<()> {
        let keys = std::mem::take(&mut *lock(&self.used));
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
            for (uses, key) in uses.into_iter().filter(|(uses, _)| !uses.is_empty()) {
                key.meter.put_back(uses);
                self.note_use(&key);
            }
        }
        stored
    }
}

/// Bans on their way to the store. Those that did not get there go back, also if the thread that told of them ends meanwhile.
struct Taken<'a> {
    bans: Vec<(KeyId, Ban)>,
    from: &'a Mutex<Vec<(KeyId, Ban)>>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        lock(self.from).append(&mut self.bans);
    }
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
