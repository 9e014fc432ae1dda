//! Polls the store for changes made by other processes, and applies them.

use super::super::shared::Shared;
use crate::access::Access;
use crate::store::{self, KeyRecord, Revisions, Store};

/// Less than every revision.
const UNKNOWN: i64 = -1;

/// Fills the directory and the counters of the day from the store, before the first request.
pub(super) async fn load(shared: &Shared) -> store::Result<Revisions> {
    let Shared { store, access, .. } = shared;
    let began = shared.clock.now();
    let revisions = store.revisions().await?;
    apply_since(UNKNOWN, store, access).await?;
    let today = shared.clock.now().day();
    let usage = store.usage_on(today).await?;
    access.directory.restore_usage(today, &usage);
    shared.metrics.keys_current_at.set(began.as_millis());
    Ok(revisions)
}

/// Applies the changes since the revisions that have been applied.
pub(super) async fn run(shared: &Shared, applied: &mut Revisions) -> store::Result<()> {
    let Shared { store, access, .. } = shared;
    let directory = &access.directory;
    let began = shared.clock.now();
    // Before the store is read: meanwhile a request may apply a newer record.
    let newest_key = directory.newest_revision();
    let read = store.revisions().await;
    if read.is_err() {
        // The server that responds next may be a standby that lacks the last animals: they must not stay in the cache.
        applied.pets = UNKNOWN;
    }
    let current = read?;
    if let Some(time) = current.time {
        shared.clock.correct(time);
    }
    if current.keys < newest_key {
        tracing::warn!(
            "the database has lost changes of keys: reading all keys; a standby that lagged was promoted, or a backup was restored"
        );
        directory.expect_older();
        *applied = Revisions {
            pets: UNKNOWN,
            keys: UNKNOWN,
            time: None,
        };
    }
    if current.pets != applied.pets {
        store.pets_changed();
    }
    if current.keys != applied.keys {
        apply_since(applied.keys, store, access).await?;
        if applied.keys == UNKNOWN {
            directory.remove_lost();
        }
    }
    *applied = current;
    shared.metrics.keys_current_at.set(began.as_millis());
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
