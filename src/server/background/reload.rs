//! Reads the certificate again: its files are polled, and a SIGHUP reads them immediately. File watches would miss links that
//! are replaced, and network file systems.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::super::certificate;
use super::super::shared::Shared;
use crate::metrics::BackgroundTask;

/// How often the files are read.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reads the files until the server shuts down.
pub(super) async fn run(shared: &Shared) {
    let Some(tls) = &shared.tls else { return };
    let mut shutdown = shared.shutdown.clone();
    let mut ticks = interval_at(Instant::now() + INTERVAL, INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut hangups = certificate::hangups().ok();
    let mut hangup = async || match &mut hangups {
        Some(hangups) => drop(hangups.recv().await),
        None => std::future::pending().await,
    };
    loop {
        let always = tokio::select! {
            _ = ticks.tick() => false,
            () = hangup() => true,
            _ = shutdown.wait_for(|stop| *stop) => return,
        };
        let reading = tls.clone();
        // Files may be on a network file system.
        let read = tokio::task::spawn_blocking(move || reading.reload(always));
        let read = tokio::select! {
            read = read => read,
            _ = shutdown.wait_for(|stop| *stop) => return,
        };
        match read {
            Ok(Ok(false)) | Err(_) => {}
            Ok(Ok(true)) => {
                tracing::info!(expires_at = %tls.expires_at(), "new certificate in use");
                certificate::publish_expiry(tls, shared);
            }
            Ok(Err(error)) => {
                shared.metrics.background_failures[BackgroundTask::Certificate as usize].add(1);
                tracing::error!(%error, "cannot use the new certificate: the previous one stays in use");
            }
        }
    }
}
