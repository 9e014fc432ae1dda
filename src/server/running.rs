//! A running server.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::shared::Shared;
use crate::api::url::BaseUrl;
use crate::http::DRAIN_TIMEOUT;
use crate::log::Sink;
use crate::store::{self, Store, StoreError};
use crate::systemd::Notifier;
use crate::trace;

/// The pause before a failed last flush is retried.
const FLUSH_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Writes cease to wait for an import this long before the drain timeout ends. An import that is suspended would block them for
/// minutes, and requests and the last flush, which each wait up to two seconds for the lock, have to end in time.
const FINAL_WRITES_TIME: Duration = Duration::from_secs(5);

/// How long the last flush may take if a thread hangs.
const HANGING_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the shutdown waits for threads. After the drain, a thread waits up to a second for blocking work. One that takes longer
/// hangs: it must neither keep the process alive nor prevent the last flush.
const JOIN_TIMEOUT: Duration = DRAIN_TIMEOUT.saturating_add(Duration::from_secs(2));

/// The interval at which the threads are polled.
const JOIN_INTERVAL: Duration = Duration::from_millis(10);

pub struct Running {
    pub(super) shared: Arc<Shared>,
    /// The reasons for which threads have ended.
    pub(super) end_reasons: mpsc::UnboundedReceiver<String>,
    pub(super) shutdown: watch::Sender<bool>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub local_url: BaseUrl,
    pub address: SocketAddr,
    pub admin_address: SocketAddr,
    pub admin_url: String,
    /// The connection limit: the option, or what the open-file limit allows.
    pub max_connections: usize,
    pub(super) notifier: Notifier,
    // Dropped last, so that lines logged during the shutdown are still written.
    pub(super) _sink: Sink,
}

impl Running {
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Reports to the log and the service manager that startup is complete.
    pub fn report_ready(&self) {
        let Self {
            address,
            admin_address,
            max_connections,
            local_url,
            ..
        } = self;
        tracing::info!(%address, %admin_address, max_connections, "ready");
        self.notifier
            .send(&format!("READY=1\nSTATUS=Serving {local_url}"));
    }

    /// Waits until the server has failed, and returns the reason.
    pub async fn failed(&mut self) -> String {
        tokio::select! {
            () = self.shared.store.writer().died() => "the writer has stopped: nothing can be stored; see the log".into(),
            // The last sender is dropped with the last thread, which has sent its reason by then.
            Some(reason) = self.end_reasons.recv() => reason,
        }
    }

    /// Shuts down gracefully: no new connection is accepted, requests in flight are completed, and usage is stored.
    pub async fn shut_down(mut self) -> anyhow::Result<()> {
        self.complete().await?;
        let (store, writer) = (
            Arc::clone(&self.shared.store),
            Arc::clone(&self.shared.store.writer().state),
        );
        drop(self.shared);
        // The threads, which have ended, had the other references, except those of long reads.
        match Arc::into_inner(store) {
            // Waits for the end of the writer.
            Some(store) => drop(store),
            None => tracing::warn!(
                "a read has not ended: what was stored last may be in the write-ahead log only"
            ),
        }
        let left_log = writer.left_log.load(Ordering::Relaxed);
        ensure!(
            !left_log,
            "cannot move the write-ahead log into the database file; see the log"
        );
        Ok(())
    }

    /// Completes what is in progress.
    async fn complete(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        self.notifier
            .send("STOPPING=1\nSTATUS=Shutting down: completing requests");
        self.shared.readiness.mark_shutting_down();
        self.shutdown.send_replace(true);
        let threads = std::mem::take(&mut self.threads);
        let mut finishing = pin!(async {
            let hanging = join(&threads).await;
            if !hanging.is_empty() {
                tracing::error!(threads = hanging.join(", "), "threads have not ended");
            }
            let flushing = self.last_flush(deadline);
            let flushed = if hanging.is_empty() {
                flushing.await
            } else {
                // A thread that hangs may hold what the flush needs.
                let late = || StoreError::Failed("threads hang, and this took too long".into());
                let flushed = timeout(HANGING_FLUSH_TIMEOUT, flushing).await;
                flushed.unwrap_or_else(|_| Err(late()))
            };
            (hanging.is_empty(), flushed)
        });
        let finished = timeout(DRAIN_TIMEOUT - FINAL_WRITES_TIME, finishing.as_mut()).await;
        let (all_ended, flushed) = match finished {
            Ok(finished) => finished,
            Err(_) => {
                self.shared
                    .store
                    .writer()
                    .state
                    .stop_extending_import_wait();
                finishing.await
            }
        };
        // Otherwise this node counts as alive until its last heartbeat expires. After a failed flush, this would fail, too.
        if flushed.is_ok() {
            drop(self.shared.store.deregister().await);
        }
        trace::shut_down();
        flushed.context("cannot store the usage and the bans recorded since the last flush")?;
        ensure!(all_ended, "threads have not ended; see the log");
        Ok(())
    }

    /// Stores the last usage. A temporary failure must not lose it, so it is retried while another attempt would end before the
    /// deadline.
    async fn last_flush(&self, deadline: Instant) -> store::Result<()> {
        loop {
            let began = Instant::now();
            let flushed = self.shared.flush().await;
            // Safe to retry: the store recognizes what it has stored already, even if it did not confirm it.
            let is_temporary = matches!(
                flushed,
                Err(StoreError::Unavailable(_) | StoreError::Unconfirmed(_))
            );
            let next = Instant::now() + FLUSH_RETRY_DELAY;
            if !is_temporary || next + began.elapsed() >= deadline {
                return flushed;
            }
            sleep(FLUSH_RETRY_DELAY).await;
        }
    }
}

/// Waits until the threads have ended. Returns the names of those that have not ended in time. A panic was logged by its thread.
async fn join(threads: &[JoinHandle<()>]) -> Vec<&str> {
    let deadline = Instant::now() + JOIN_TIMEOUT;
    let running = || threads.iter().filter(|thread| !thread.is_finished());
    while running().next().is_some() && Instant::now() < deadline {
        sleep(JOIN_INTERVAL).await;
    }
    running()
        .filter_map(|thread| thread.thread().name())
        .collect()
}
