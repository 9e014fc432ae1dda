//! What is done beside serving: obeying changes that others made in the store, and storing what was counted. A server whose
//! keeper died would go on serving keys that were revoked, so its death is the server's.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::Shared;
use crate::store::{self, Retry, Revisions};

/// How often what was counted is stored.
const FLUSH: Duration = Duration::from_secs(1);

/// How often retries that are too old are swept out.
const SWEEP: Duration = Duration::from_secs(60);

/// The keeper of one server.
#[derive(Debug)]
pub(super) struct Keeper {
    /// Its other end tells the server when the keeper is gone, however that came.
    _alive: watch::Sender<()>,
    shared: Arc<Shared>,
    seen: Revisions,
}

impl Keeper {
    /// Fills the directory and the day's counters from the store: nothing is served before that.
    pub(super) async fn start(shared: Arc<Shared>) -> store::Result<(Self, watch::Receiver<()>)> {
        let seen = shared.store.revisions().await?;
        let keys = shared.store.keys_since(-1).await?;
        shared.access.directory.apply_all(&keys);
        let today = shared.clock.now().day();
        shared
            .access
            .directory
            .remember(today, &shared.store.use_on(today).await?);
        let (alive, life) = watch::channel(());
        Ok((
            Self {
                _alive: alive,
                shared,
                seen,
            },
            life,
        ))
    }

    /// Goes on until the server stops.
    pub(super) async fn run(mut self) {
        let mut stopping = self.shared.stopping.clone();
        let pause = self.shared.store.look_every();
        let mut ticks = interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        for tick in 1.. {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
            let done = self.tick(pause * tick).await;
            // Told at each turn, not at each look.
            match &done {
                Err(error) if !failing => tracing::warn!(%error, "cannot keep up with the store"),
                Ok(()) if failing => tracing::info!("keeping up with the store again"),
                _ => {}
            }
            failing = done.is_err();
        }
    }

    async fn tick(&mut self, age: Duration) -> store::Result<()> {
        let due = |every: Duration| age.as_millis().is_multiple_of(every.as_millis());
        let Shared {
            store,
            access,
            ledger,
            clock,
            ..
        } = &*self.shared;
        let now = store.revisions().await?;
        if now.pets != self.seen.pets {
            store.pets_changed();
        }
        if now.keys != self.seen.keys {
            access
                .directory
                .apply_all(&store.keys_since(self.seen.keys).await?);
        }
        self.seen = now;
        // One that fails does not keep the other from its turn.
        let flushed = match due(FLUSH) {
            true => ledger.flush(store).await,
            false => Ok(()),
        };
        if due(SWEEP) {
            store
                .forget_retries(clock.now().before(Retry::KEPT))
                .await?;
        }
        flushed
    }
}
