//! Polls the store for changes made by other processes, and applies them.

use super::super::shared::Shared;
use crate::access::Access;
use crate::store::{self, KeyRecord, Revisions, Store};

/// Applies changes, and keeps the revisions that have been applied.
#[derive(Debug)]
pub(super) struct Poller {
    seen: Revisions,
}

impl Poller {
    /// Fills the directory and the counters of the day from the store, before the first request.
    pub(super) async fn load(shared: &Shared) -> store::Result<Self> {
        let Shared {
            store,
            access,
            clock,
            ..
        } = shared;
        let began = clock.now();
        let seen = store.revisions().await?;
        apply_since(-1, store, access).await?;
        let today = clock.now().day();
        access
            .directory
            .restore_usage(today, &store.usage_on(today).await?);
        shared.metrics.keys_current_at.set(began.as_millis());
        Ok(Self { seen })
    }

    /// Applies the changes since the last poll.
    pub(super) async fn run(&mut self, shared: &Shared) -> store::Result<()> {
        let Shared { store, access, .. } = shared;
        let began = shared.clock.now();
        let now = store.revisions().await?;
        if let Some(time) = now.time {
            shared.clock.correct(time);
        }
        if now.pets != self.seen.pets {
            store.pets_changed();
        }
        if now.keys != self.seen.keys {
            apply_since(self.seen.keys, store, access).await?;
        }
        self.seen = now;
        shared.metrics.keys_current_at.set(began.as_millis());
        Ok(())
    }
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
