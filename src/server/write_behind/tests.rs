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
