//! What the store has yet to be told: which keys have been used, once a key and second and not once a request, and which
//! have been banned.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pace;
use crate::access::Key;
use crate::clock::Timestamp;
use crate::key::KeyId;
use crate::limit::BanChange;
use crate::store::{self, Store, UseBatch, UseRecorder};

/// The most keys in one batch of use: so few that a creation that waits with it for the same commit waits briefly.
const BATCH: usize = 500;

/// What is yet to be told.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Keys whose meters have something to tell.
    used: Mutex<Vec<Arc<Key>>>,
    bans: Mutex<Vec<(KeyId, BanChange)>>,
    /// Held while use is flushed: batches are sent one after the other.
    outbox: tokio::sync::Mutex<Outbox>,
}

impl Ledger {
    /// A ledger with nothing to tell.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            used: Mutex::default(),
            bans: Mutex::default(),
            outbox: tokio::sync::Mutex::new(Outbox {
                recorder: UseRecorder::new()?,
                unsettled: None,
            }),
        })
    }

    /// Notes that a key's meter has something to tell.
    pub(super) fn note_use(&self, key: &Arc<Key>) {
        lock(&self.used).push(Arc::clone(key));
    }

    /// Notes that a key is banned.
    pub(super) fn note_ban(&self, key: KeyId, ban: BanChange) {
        lock(&self.bans).push((key, ban));
    }

    /// Tells the store everything. What it does not take is kept for the next time.
    pub(super) async fn flush(&self, store: &Store, now: Timestamp) -> store::Result<()> {
        let bans = self.flush_bans(store).await;
        self.flush_uses(store, now).await.and(bans)
    }

    /// Tells the store of the bans. One that was stored already changes nothing: the store takes only a later one.
    pub(super) async fn flush_bans(&self, store: &Store) -> store::Result<()> {
        let mut taken = Taken::all(&self.bans);
        while let Some((key, ban)) = taken.list.last().copied() {
            store.record_ban(key, ban).await?;
            taken.list.pop();
        }
        Ok(())
    }

    async fn flush_uses(&self, store: &Store, now: Timestamp) -> store::Result<()> {
        let mut outbox = self.outbox.lock().await;
        outbox.give_up_what_is_too_old(now);
        outbox.send(store).await?;
        let mut taken = Taken::all(&self.used);
        // Neighbours in the store, so that a batch touches few pages of it. The last ones are sent first.
        taken.list.sort_unstable_by_key(|key| key.id);
        pace::in_chunks(async || {
            let rest = taken.list.len().saturating_sub(BATCH);
            let uses = taken.list.drain(rest..).flat_map(|key| {
                let uses = key.meter.read_out();
                uses.into_iter().map(move |on| (key.id, on))
            });
            outbox.fill(uses, now);
            outbox.send(store).await?;
            Ok(!taken.list.is_empty())
        })
        .await
    }
}

/// The batch of use that is being sent.
#[derive(Debug)]
struct Outbox {
    recorder: UseRecorder,
    /// A batch that the store may have, or may not: whoever sent it did not learn that it was stored. It is sent again as it is,
    /// before any other.
    unsettled: Option<Arc<UseBatch>>,
}

impl Outbox {
    fn fill(
        &mut self,
        uses: impl IntoIterator<Item = (KeyId, crate::limit::DayUse)>,
        now: Timestamp,
    ) {
        let batch = self.recorder.batch(uses, now);
        self.unsettled = (!batch.uses.is_empty()).then(|| Arc::new(batch));
    }

    /// Sends the batch, if there is one. It stays, also if the one who waits here is gone before the store has replied.
    async fn send(&mut self, store: &Store) -> store::Result<()> {
        if let Some(batch) = &self.unsettled {
            store.record_use(batch).await?;
            self.unsettled = None;
        }
        Ok(())
    }

    /// Sent once more, it could be counted twice.
    fn give_up_what_is_too_old(&mut self, now: Timestamp) {
        if let Some(batch) = self.unsettled.take_if(|batch| batch.is_too_old(now)) {
            tracing::error!(
                since = %batch.made_at,
                keys = batch.uses.len(),
                "use could not be stored for too long: it is given up"
            );
        }
    }
}

/// What is on its way to the store. What did not get there goes back, also if the thread that told of it ends meanwhile.
struct Taken<'a, T> {
    list: Vec<T>,
    from: &'a Mutex<Vec<T>>,
}

impl<'a, T> Taken<'a, T> {
    fn all(from: &'a Mutex<Vec<T>>) -> Self {
        Self {
            list: std::mem::take(&mut *lock(from)),
            from,
        }
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        if !self.list.is_empty() {
            lock(self.from).append(&mut self.list);
        }
    }
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
