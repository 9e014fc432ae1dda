//! Polls the store for changes made by other processes, and applies them.

use std::time::{Duration, Instant};

use super::super::shared::Shared;
use crate::access::Access;
use crate::key::KeyId;
use crate::store::{self, KeyRecord, Revisions, Store};

/// Less than every revision.
const UNKNOWN: i64 = -1;

/// The number of failures from which it is an outage: one poll may fail because the database is busy.
const MIN_OUTAGE_FAILURES: u32 = 2;

/// How long one poll may spend on reading all keys again; the next one continues.
const REREAD_TIME: Duration = Duration::from_millis(200);

/// The revisions that have been applied, and the progress of polling.
pub(crate) struct Applied {
    revisions: Revisions,
    /// How often in a row the revisions could not be read. A poll that read them and failed after that counts as one.
    failures: u32,
    /// While all keys are read again: the last one that has been read.
    reread: Option<KeyId>,
}

/// Fills the directory and the counters of the day from the store, before the first request.
pub(super) async fn load(shared: &Shared) -> store::Result<Applied> {
    let Shared { store, access, .. } = shared;
    let began = (shared.clock.now(), Instant::now());
    let revisions = store.revisions().await?;
    apply_since(UNKNOWN, store, access).await?;
    let today = shared.clock.now().day();
    // The next day, too: if the clock has stepped back, limits stay in the window that they had reached. With Redis, only today: Redis
    // stays in that window by itself, and a Redis that has lost its data needs the usage of today.
    let next = shared.redis.is_none().then(|| today.next());
    for day in std::iter::once(today).chain(next) {
        let usage = store.usage_on(day).await?;
        access.directory.restore_usage(day, &usage);
    }
    shared.metrics.set_keys_current(began);
    Ok(Applied {
        revisions,
        failures: 0,
        reread: None,
    })
}

/// Applies the changes since the revisions that have been applied.
pub(super) async fn run(shared: &Shared, applied: &mut Applied) -> store::Result<()> {
    let Shared { store, access, .. } = shared;
    let began = (shared.clock.now(), Instant::now());
    let read = store.revisions().await;
    if read.is_err() {
        applied.failures = applied.failures.saturating_add(1);
    }
    let current = read?;
    let was_outage = std::mem::take(&mut applied.failures) >= MIN_OUTAGE_FAILURES
        || current.connected_at != applied.revisions.connected_at;
    if let Some(time) = current.time {
        shared.clock.correct(time);
    }
    let before = &mut applied.revisions;
    let is_older = current.keys < before.keys || current.pets < before.pets;
    if is_older {
        tracing::warn!(
            "the database has lost changes: reading all keys; a standby that lagged was promoted, or a backup was restored"
        );
    }
    // After an outage the database may be a promoted standby that lacks the last changes, and new ones may have raised its revisions
    // already.
    if is_older || (was_outage && store.is_shared()) {
        store.pets_changed();
        access.directory.expect_older();
        applied.reread = Some(KeyId(i64::MIN));
        before.connected_at = current.connected_at;
    } else if current.pets != before.pets {
        store.pets_changed();
    }
    let read = async {
        if current.keys > before.keys {
            apply_since(before.keys, store, access).await?;
        }
        *before = current;
        shared.metrics.set_keys_current(began);
        reread(&mut applied.reread, store, access).await
    };
    let result = read.await;
    applied.failures = u32::from(result.is_err());
    result
}

/// Reads the next keys again, if a reread is in progress, and at the end removes those that the store has lost.
async fn reread(last: &mut Option<KeyId>, store: &Store, access: &Access) -> store::Result<()> {
    let began = Instant::now();
    while let Some(after) = *last
        && began.elapsed() < REREAD_TIME
    {
        let keys = store.keys_after(after).await?;
        for key in &keys {
            access.directory.apply(key);
        }
        *last = keys.last().map(|key| key.id);
        if last.is_none() {
            access.directory.remove_lost();
        }
    }
    Ok(())
}

/// Applies every change of a key after this revision.
async fn apply_since(revision: i64, store: &Store, access: &Access) -> store::Result<()> {
    let apply = |keys: Vec<KeyRecord>| {
        for key in &keys {
            access.directory.apply(key);
        }
    };
    store.keys_since(revision, apply).await
}
