//! Polls the store for changes made by other processes, and applies them.

use std::time::{Duration, Instant};

use super::super::shared::Shared;
use crate::access::Access;
use crate::key::KeyId;
use crate::store::{self, KeyRecord, Revisions, Store};

/// Less than every revision, so that every key counts as changed.
const BEFORE_ALL_REVISIONS: i64 = -1;

/// The number of failures from which it is an outage: one poll may fail because the database is busy.
const MIN_OUTAGE_FAILURES: u32 = 2;

/// How long one poll may spend on reading all keys again; the next one continues.
const REREAD_TIME: Duration = Duration::from_millis(200);

/// The revisions that have been applied, and the progress of polling.
pub(crate) struct Applied {
    revisions: Revisions,
    /// How many times in a row the revisions could not be read. A poll that read them and failed after that counts as one.
    failures: u32,
    /// While all keys are read again: the last one that has been read.
    reread: Option<KeyId>,
}

/// Fills the directory and the counters of the day from the store, before the first request.
pub(super) async fn load(shared: &Shared) -> store::Result<Applied> {
    let Shared { store, access, .. } = shared;
    let began = (shared.clock.now(), Instant::now());
    let revisions = store.revisions().await?;
    apply_since(BEFORE_ALL_REVISIONS, store, access).await?;
    let today = shared.clock.now().day();
    // Yesterday and tomorrow, too: the clock may have stepped back, and limits stay in the window that they had reached, or it may be
    // ahead, and step back later. With Redis, only today: Redis stays in that window by itself, and a Redis that has lost its data
    // needs the usage of today.
    let days = match shared.redis {
        None => vec![today.previous(), today, today.next()],
        Some(_) => vec![today],
    };
    for day in days {
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
    shared.clock.observe();
    let began = (shared.clock.now(), Instant::now());
    let read = store.revisions().await;
    if read.is_err() {
        applied.failures = applied.failures.saturating_add(1);
    }
    let current = read?;
    let may_have_failed_over = std::mem::take(&mut applied.failures) >= MIN_OUTAGE_FAILURES
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
    // After an outage, or on a new connection, the database may be a promoted standby that lacks the last changes, and new ones may
    // have raised its revisions already.
    if is_older || (may_have_failed_over && store.is_shared()) {
        store.clear_cache();
        access.directory.expect_older();
        applied.reread = Some(KeyId(i64::MIN));
        // Not with the rest: if what follows fails, the next poll must not begin to reread from the start.
        before.connected_at = current.connected_at;
    } else if current.pets != before.pets {
        store.clear_cache();
    }
    let read = async {
        if current.keys > before.keys {
            apply_since(before.keys, store, access).await?;
        }
        *before = current;
        reread(&mut applied.reread, store, access).await?;
        // Until all keys have been read again, one that was revoked since may be unknown.
        if applied.reread.is_none() {
            shared.metrics.set_keys_current(began);
        }
        Ok(())
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
