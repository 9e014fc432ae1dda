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
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use futures_util::future::join;

    use super::*;
    use crate::limit::{Ban, BanPolicy, DayUsage};
    use crate::pet::NewPet;
    use crate::plan::Limits;
    use crate::store::{Database, Mode};

    /// The number of keys in use.
    fn keys_in_use() -> usize {
        let long = std::env::var("ANIMAL_STORE_TEST_LONG").is_ok_and(|value| value == "1");
        if long { 100_000 } else { 20_000 }
    }

    const NOW: Timestamp = Timestamp::from_secs(1_794_830_410);

    fn block_on<F: Future>(future: F) -> F::Output {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    /// A store with this number of keys, and the keys.
    fn many_keys(folder: &tempfile::TempDir, count: usize) -> (Store, Directory, Vec<SecretGrant>) {
        let path = folder.path().join("a.db");
        let database = Database::Sqlite(path.clone());
        let store = block_on(Store::open(&database, Mode::Migrate, 100)).unwrap();
        let fill = format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             INSERT INTO api_keys (name, plan, prefix, hash, created_at)
             SELECT 'a', 'business', 'as_12345', randomblob(32), 0 FROM n"
        );
        let file = rusqlite::Connection::open(path).unwrap();
        file.execute_batch(&fill).unwrap();
        let (directory, mut keys) = (Directory::default(), Vec::new());
        let each = |records: Vec<store::KeyRecord>| {
            for record in records {
                directory.apply(&record);
                keys.extend(directory.find(&record.hash));
            }
        };
        block_on(store.keys_since(-1, each)).unwrap();
        (store, directory, keys)
    }

    /// Creates animals until `stop` is set. Returns how long each took, in ascending order.
    fn create_until(store: &Store, stop: &AtomicBool) -> Vec<Duration> {
        let mut took = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let pet = NewPet::from_json(br#"{"name":"Rex","categoryId":1}"#).unwrap();
            let began = Instant::now();
            block_on(store.create(pet, None)).unwrap();
            took.push(began.elapsed());
        }
        took.sort();
        took
    }

    #[test]
    fn entries_that_were_not_stored_are_put_back_before_later_ones() {
        let list = Mutex::new(vec![1, 2]);
        let taken = TakenEntries::all([&list]);
        lock(&list).push(3);
        drop(taken);
        assert_eq!(*lock(&list), [1, 2, 3]);
    }

    #[test]
    fn many_bans_share_commits_and_those_of_one_key_are_stored_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _, keys) = many_keys(&folder, 80);
        let write_behind = WriteBehind::new(1).unwrap();
        let ban = |minutes: u64| BanChange {
            ban: Ban {
                started_at: NOW.plus(Duration::from_secs(60 * minutes)),
                until: NOW.plus(Duration::from_secs(60 * minutes + 300)),
            },
            replaces: None,
        };
        for minutes in [0, 10, 20] {
            write_behind.record_ban(keys[0].identity, ban(minutes));
        }
        for key in &keys[1..] {
            write_behind.record_ban(key.identity, ban(0));
        }
        let before = store.writer().state.commits.get();
        block_on(write_behind.flush_bans(&store)).unwrap();
        let commits = store.writer().state.commits.get() - before;
        assert!(commits <= 40, "{commits} commits");
        assert!(lock(&write_behind.bans).is_empty());
        for (key, minutes) in keys.iter().zip([20].into_iter().chain([0].repeat(79))) {
            let stored = block_on(store.key(key.identity.id)).unwrap().unwrap();
            assert_eq!(stored.ban, Some(ban(minutes).ban));
        }
    }

    #[test]
    fn a_ban_that_could_not_be_stored_does_not_replace_its_correction() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _, keys) = many_keys(&folder, 1);
        let write_behind = WriteBehind::new(1).unwrap();
        let (key, ahead) = (keys[0].identity, NOW.plus(Duration::from_secs(3_600)));
        let ban = |started_at: Timestamp| Ban {
            started_at,
            until: started_at.plus(Duration::from_secs(300)),
        };
        let other = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        write_behind.record_ban(key, ban(ahead).into());
        let first = write_behind.flush_bans(&store);
        let second = async {
            let corrected = BanChange {
                ban: ban(NOW),
                replaces: Some(ahead),
            };
            write_behind.record_ban(key, corrected);
            write_behind.flush_bans(&store).await
        };
        let (first, second) = block_on(join(first, second));
        assert!(first.is_err() && second.is_err());
        other.execute_batch("ROLLBACK").unwrap();
        block_on(write_behind.flush_bans(&store)).unwrap();
        let stored = block_on(store.key(key.id)).unwrap().unwrap();
        assert_eq!(stored.ban, Some(ban(NOW)));
    }

    #[test]
    fn bans_that_are_recorded_during_a_flush_do_not_wait_for_it_and_are_stored_by_it() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _, keys) = many_keys(&folder, 80);
        let write_behind = WriteBehind::new(1).unwrap();
        let ban = Ban {
            started_at: NOW,
            until: NOW.plus(Duration::from_secs(300)),
        };
        let other = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        write_behind.record_ban(keys[0].identity, ban.into());
        let first = write_behind.flush_bans(&store);
        let others = async {
            for key in &keys[1..] {
                write_behind.record_ban(key.identity, ban.into());
                write_behind.join_flush_of_bans(&store).await.unwrap();
            }
            other.execute_batch("ROLLBACK").unwrap();
        };
        block_on(join(first, others)).0.unwrap();
        for key in &keys {
            let stored = block_on(store.key(key.identity.id)).unwrap().unwrap();
            assert_eq!(stored.ban, Some(ban));
        }
    }

    #[test]
    fn a_batch_that_the_store_might_count_twice_is_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let (store, directory, keys) = many_keys(&folder, 1);
        let write_behind = WriteBehind::new(1).unwrap();
        let age = UsageBatch::RETENTION / 2;
        for (sent_after, stored) in [(age, 0), (age - Duration::from_secs(1), 3)] {
            let usage = DayUsage {
                day: NOW.day(),
                requests: 3,
                rejected: 0,
                last: NOW,
            };
            let mut outbox = write_behind.outbox.try_lock().unwrap();
            outbox.fill([(keys[0].identity, usage)], NOW);
            drop(outbox);
            block_on(write_behind.flush_usage(&store, &directory, NOW.plus(sent_after))).unwrap();
            let usage = block_on(store.usage_on(NOW.day())).unwrap();
            assert_eq!(
                usage.iter().map(|(_, requests)| *requests).sum::<u32>(),
                stored
            );
        }
    }

    #[test]
    fn creations_do_not_wait_until_the_use_of_very_many_keys_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let count = keys_in_use();
        let (store, directory, keys) = many_keys(&folder, count);
        assert_eq!(keys.len(), count);
        let write_behind = WriteBehind::new(2).unwrap();
        let stop = AtomicBool::new(false);
        let (took, flushed) = std::thread::scope(|scope| {
            let creating = scope.spawn(|| create_until(&store, &stop));
            let mut flushed = Vec::new();
            for second in 0..2 {
                let now = NOW.plus(Duration::from_secs(second));
                for (number, key) in keys.iter().enumerate() {
                    let limits = Limits::new(9, 9).unwrap();
                    directory
                        .meter(key)
                        .decide(limits, &BanPolicy::default(), now);
                    write_behind.mark_used(number % 2, key);
                }
                let began = Instant::now();
                block_on(write_behind.flush_usage(&store, &directory, now)).unwrap();
                flushed.push(began.elapsed());
            }
            stop.store(true, Ordering::Relaxed);
            (creating.join().unwrap(), flushed)
        });
        let stored = block_on(store.usage_on(NOW.day())).unwrap();
        assert_eq!(stored.len(), count);
        assert!(stored.iter().all(|(_, requests)| *requests == 2));
        let (p99, longest) = (took[took.len() * 99 / 100], took[took.len() - 1]);
        let figures = format!(
            "{} creations, median {:?}, p99 {p99:?}, longest {longest:?}, flushed in {flushed:?}",
            took.len(),
            took[took.len() / 2]
        );
        println!("{figures}");
        // Compared with the time of a flush, because both depend on the load of the machine: with one transaction, a creation waits
        // for all of it.
        let shortest = flushed.iter().min().copied().unwrap_or_default();
        assert!(p99 * 10 < shortest, "{figures}");
        assert!(longest * 2 < shortest, "{figures}");
    }
}
