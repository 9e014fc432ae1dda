//! Polls the store for changes made by other processes, and applies them.

use super::super::shared::Shared;
use crate::access::Access;
use crate::store::{self, KeyRecord, Revisions, Store};

/// Less than every revision.
const UNKNOWN: i64 = -1;

/// The number of failed polls in a row that are an outage: one may fail because the database is busy.
const OUTAGE: u32 = 2;

/// What has been applied.
pub(crate) struct Applied {
    revisions: Revisions,
    /// Failed polls since the last one that succeeded.
    failures: u32,
}

/// Fills the directory and the counters of the day from the store, before the first request.
pub(super) async fn load(shared: &Shared) -> store::Result<Applied> {
    let Shared { store, access, .. } = shared;
    let began = shared.clock.now();
    let revisions = store.revisions().await?;
    apply_since(UNKNOWN, store, access).await?;
    let today = shared.clock.now().day();
    let usage = store.usage_on(today).await?;
    access.directory.restore_usage(today, &usage);
    shared.metrics.keys_current_at.set(began.as_millis());
    Ok(Applied {
        revisions,
        failures: 0,
    })
}

/// Applies the changes since the revisions that have been applied.
pub(super) async fn run(shared: &Shared, applied: &mut Applied) -> store::Result<()> {
    let done = apply(shared, applied).await;
    applied.failures = match done {
        Ok(()) => 0,
        Err(_) => applied.failures.saturating_add(1),
    };
    done
}

async fn apply(shared: &Shared, applied: &mut Applied) -> store::Result<()> {
    let Shared { store, access, .. } = shared;
    let Applied {
        revisions: before,
        failures,
    } = applied;
    let began = shared.clock.now();
    let current = store.revisions().await?;
    if let Some(time) = current.time {
        shared.clock.correct(time);
    }
    let has_lost_changes = current.keys < before.keys;
    if has_lost_changes {
        tracing::warn!(
            "the database has lost changes of keys: reading all keys; a standby that lagged was promoted, or a backup was restored"
        );
    }
    // After an outage the server may be a standby that lacks the last changes, and new ones may have raised its revisions already.
    if has_lost_changes || (store.is_shared() && *failures >= OUTAGE) {
        store.pets_changed();
        access.directory.expect_older();
        apply_since(UNKNOWN, store, access).await?;
        access.directory.remove_lost();
    } else {
        if current.pets != before.pets {
            store.pets_changed();
        }
        if current.keys != before.keys {
            apply_since(before.keys, store, access).await?;
        }
    }
    *before = current;
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
