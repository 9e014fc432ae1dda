//! Usage and bans that are not stored yet. Usage is stored once for each key and second, not for each request.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use tokio::sync::MutexGuard;

use super::pace;
use crate::access::{Directory, SecretGrant};
use crate::clock::Timestamp;
use crate::key::KeyIdentity;
use crate::limit::BanChange;
use crate::mutex::{AlignedMutex, lock};
use crate::store::{self, Store, UsageBatch, UsageRecorder};

/// The maximum number of keys in one batch of usage: few enough that a creation in the same commit waits only briefly.
const MAX_BATCH_KEYS: usize = 500;

/// How many bans are stored at the same time in an embedded database: they share a commit. With PostgreSQL, each would wait for the
/// others in a transaction of its own.
const CONCURRENT_BANS: usize = 8;

pub(super) struct WriteBehind {
    /// Keys that have been used since their usage was last stored, by worker.
    used: Box<[AlignedMutex<Vec<SecretGrant>>]>,
    bans: Mutex<Vec<(KeyIdentity, BanChange)>>,
    /// Held while bans are flushed: PostgreSQL could store a correction before what it corrects.
    flushing_bans: tokio::sync::Mutex<()>,
    /// Held while usage is flushed: batches are sent one after the other.
    outbox: tokio::sync::Mutex<Outbox>,
}

impl WriteBehind {
    /// Nothing to store yet, for this number of workers.
    pub(super) fn new(workers: usize) -> std::io::Result<Self> {
        Ok(Self {
            used: (0..workers).map(|_| AlignedMutex::default()).collect(),
            bans: Mutex::default(),
            flushing_bans: tokio::sync::Mutex::default(),
            outbox: tokio::sync::Mutex::new(Outbox {
                recorder: UsageRecorder::new()?,
                unconfirmed: None,
            }),
        })
    }

    /// Records that a key has been used, and its meter has usage that is not stored. Called by the worker with this number.
    pub(super) fn mark_used(&self, worker: usize, key: &SecretGrant) {
        lock(&self.used[worker].0).push(*key);
    }

    pub(super) fn record_ban(&self, key: KeyIdentity, ban: BanChange) {
        lock(&self.bans).push((key, ban));
    }

    /// Stores the bans; those that cannot be stored are kept for the next flush. Repeating one changes nothing: the store accepts
    /// only a later one, or the correction of the one that it has.
    pub(super) async fn flush_bans(&self, store: &Store) -> store::Result<()> {
        let flushing = self.flushing_bans.lock().await;
        self.store_bans(store, flushing).await?;
        self.join_flush_of_bans(store).await
    }

    /// The same, but returns at once if a flush is in progress, which stores those that were recorded meanwhile, too.
    pub(super) async fn join_flush_of_bans(&self, store: &Store) -> store::Result<()> {
        while !lock(&self.bans).is_empty()
            && let Ok(flushing) = self.flushing_bans.try_lock()
        {
            self.store_bans(store, flushing).await?;
        }
        Ok(())
    }

    async fn store_bans(&self, store: &Store, _flushing: MutexGuard<'_, ()>) -> store::Result<()> {
        let mut taken = TakenEntries::all([&self.bans]);
        while !taken.list.is_empty() {
            let count = match store.is_shared() {
                true => 1,
                false => independent(&taken.list),
            };
            let storing = taken.list[..count]
                .iter()
                .map(|(key, ban)| store.record_ban(*key, *ban));
            let mut results = join_all(storing).await.into_iter();
            let mut failed = Ok(());
            taken.list.retain(|_| match results.next() {
                Some(Ok(())) => false,
                Some(error) => {
                    failed = error;
                    true
                }
                None => true,
            });
            failed?;
        }
        Ok(())
    }

    /// Stores the usage. What cannot be stored is kept for the next flush.
    pub(super) async fn flush_usage(
        &self,
        store: &Store,
        directory: &Directory,
        now: Timestamp,
    ) -> store::Result<()> {
        let mut outbox = self.outbox.lock().await;
        outbox.discard_expired(now);
        outbox.send(store).await?;
        let mut taken = TakenEntries::all(self.used.iter().map(|AlignedMutex(list)| list));
        // By ID, so that the rows of a batch are adjacent in the store, and it touches few pages. The highest IDs are sent first.
        taken.list.sort_unstable_by_key(|key| key.identity);
        pace::in_chunks(async || {
            let rest = taken.list.len().saturating_sub(MAX_BATCH_KEYS);
            let usage = taken.list.drain(rest..).flat_map(|key| {
                let usage = directory.meter(&key).take_unstored();
                usage.into_iter().map(move |on| (key.identity, on))
            });
            outbox.fill(usage, now);
            outbox.send(store).await?;
            Ok(!taken.list.is_empty())
        })
        .await
    }
}

/// How many of the first bans can be stored at the same time: a correction comes after what it corrects.
fn independent(bans: &[(KeyIdentity, BanChange)]) -> usize {
    let first = &bans[..bans.len().min(CONCURRENT_BANS)];
    let repeats = |&index: &usize| first[..index].iter().any(|(key, _)| *key == first[index].0);
    (1..first.len()).find(repeats).unwrap_or(first.len())
}

/// The batch of usage that is being sent.
struct Outbox {
    recorder: UsageRecorder,
    /// A batch with an unknown outcome, because the store has not confirmed it. It is sent again unchanged, before any other.
    unconfirmed: Option<Arc<UsageBatch>>,
}

impl Outbox {
    fn fill(
        &mut self,
        usage: impl IntoIterator<Item = (KeyIdentity, crate::limit::DayUsage)>,
        now: Timestamp,
    ) {
        let batch = self.recorder.batch(usage, now);
        self.unconfirmed = (!batch.usage.is_empty()).then(|| Arc::new(batch));
    }

    /// Sends the batch, if there is one. It is kept until the store confirms it, even if this future is dropped.
    async fn send(&mut self, store: &Store) -> store::Result<()> {
        if let Some(batch) = &self.unconfirmed {
            store.record_usage(batch).await?;
            self.unconfirmed = None;
        }
        Ok(())
    }

    /// Discards a batch that is too old: sent again, it could be counted twice.
    fn discard_expired(&mut self, now: Timestamp) {
        if let Some(batch) = self.unconfirmed.take_if(|batch| batch.is_too_old(now)) {
            tracing::error!(
                since = %batch.made_at,
                keys = batch.usage.len(),
                "usage discarded: it could not be stored in time"
            );
        }
    }
}

/// Entries that are being stored. Those that were not stored are put back, even if the flush is cancelled.
struct TakenEntries<'a, T> {
    list: Vec<T>,
    /// The first of the lists, which gets back what was not stored, whichever list it came from.
    back_to: Option<&'a Mutex<Vec<T>>>,
}

impl<'a, T> TakenEntries<'a, T> {
    fn all(lists: impl IntoIterator<Item = &'a Mutex<Vec<T>>>) -> Self {
        let (mut list, mut back_to) = (Vec::new(), None);
        for each in lists {
            // Taken under the lock, and appended without it.
            let mut taken = std::mem::take(&mut *lock(each));
            list.append(&mut taken);
            back_to.get_or_insert(each);
        }
        Self { list, back_to }
    }
}

impl<T> Drop for TakenEntries<'_, T> {
    fn drop(&mut self) {
        if let Some(list) = self.back_to
            && !self.list.is_empty()
        {
            let mut list = lock(list);
            // Before those that came meanwhile.
            self.list.append(&mut list);
            *list = std::mem::take(&mut self.list);
        }
    }
}

#[cfg(test)]
mod tests;
