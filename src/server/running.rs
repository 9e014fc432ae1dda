//! A server that serves, until it is shut down.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::{mpsc, watch};

use super::shared::Shared;
use crate::api::url::BaseUrl;
use crate::http::DRAIN;
use crate::log::Sink;
use crate::store::{self, Store};

/// How long after a failure the last flush is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// A server that serves.
#[derive(Debug)]
pub struct Running {
    pub(super) shared: Arc<Shared>,
    /// Why threads have ended.
    pub(super) endings: mpsc::UnboundedReceiver<String>,
    pub(super) shutdown: watch::Sender<bool>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) local: BaseUrl,
    pub(super) address: SocketAddr,
    pub(super) admin_address: SocketAddr,
    pub(super) max_connections: usize,
    // Dropped last: what was logged on the way out is still written.
    pub(super) _sink: Sink,
}

impl Running {
    /// Where the API can be reached from this machine.
    pub fn local_url(&self) -> &BaseUrl {
        &self.local
    }

    /// Where the API listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the admin listener is.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// How many connections the API takes at once: as many as were asked for, or as the system allows.
    pub fn max_connections(&self) -> usize {
        self.max_connections
    }

    /// The data.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Returns, with the reason, when the server cannot keep its promises any more.
    pub async fn failed(&mut self) -> String {
        tokio::select! {
            () = self.shared.store.writer_died() => "the writer has stopped: nothing can be stored".into(),
            // The last sender is dropped with the last thread, which has sent its reason by then.
            Some(reason) = self.endings.recv() => reason,
        }
    }

    /// Shuts down gracefully: no new connection is accepted, requests at work get their responses, and what was counted is stored.
    pub async fn shut_down(mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + DRAIN;
        self.shared.readiness.shut_down();
        self.shutdown.send_replace(true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has logged it; the others still have their work to finish.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        self.last_flush(deadline)
            .await
            .context("cannot store the last second of usage")
    }

    /// Stores what was counted last. A store that fails for a moment must not cost it, so it is tried until the deadline.
    async fn last_flush(&self, deadline: Instant) -> store::Result<()> {
        let Shared {
            write_behind,
            store,
            access,
            clock,
            ..
        } = &*self.shared;
        loop {
            let flushed = write_behind
                .flush(store, &access.directory, clock.now())
                .await;
            if flushed.is_ok() || Instant::now() + AGAIN >= deadline {
                return flushed;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
