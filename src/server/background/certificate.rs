//! The certificate of the listeners: loaded at startup and read again. Its files are polled, because file watches would miss
//! replaced links, and changes on network file systems; a SIGHUP reads them immediately. Its expiry is checked when it is loaded or
//! replaced; later, only the metric shows it.

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::blocking::run_blocking;
use crate::config::TlsFiles;
use crate::fault::Fault;
use crate::http::{Reload, Tls};
use crate::metrics::BackgroundTask;
use crate::server::shared::Shared;

/// How often the files are read.
const INTERVAL: Duration = Duration::from_secs(10);

/// The time after which it is a failure that they have not been read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn load(files: &TlsFiles) -> anyhow::Result<Tls> {
    Tls::load(files.cert.clone(), files.key.clone()).map_err(|error| {
        let option = match (error.path == files.cert, error.path == files.key) {
            (true, true) => "--tls-cert and --tls-key",
            (true, false) => "--tls-cert",
            (false, _) => "--tls-key",
        };
        anyhow!("{option} {error}")
    })
}

/// Publishes when the certificate expires. One that has expired, or is not valid yet, is used nevertheless: clients decide whether they
/// accept it.
pub(crate) fn publish_expiry(tls: &Tls, shared: &Shared) {
    let expires_at = tls.expires_at();
    let metric = &shared.metrics.certificate_expires_at;
    metric.set(expires_at.as_millis());
    let (now, valid_from) = (shared.clock.now(), tls.valid_from());
    if expires_at <= now {
        tracing::warn!(%expires_at, "the certificate of --tls-cert has expired: replace it");
    }
    if valid_from > now {
        tracing::warn!(%valid_from, "the certificate of --tls-cert is not valid yet: replace it, or correct the clock");
    }
}

/// Reads the files at their interval, and after a SIGHUP.
pub(super) async fn run(shared: &Shared) {
    let Some(tls) = &shared.tls else { return };
    let mut hangups = signal(SignalKind::hangup()).ok();
    // The first tick is immediate: the files may have been replaced before this task received signals.
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut hangup = async || match &mut hangups {
        Some(hangups) => drop(hangups.recv().await),
        None => std::future::pending().await,
    };
    let failures = &shared.metrics.background_failures[BackgroundTask::Certificate as usize];
    let mut had_run = true;
    loop {
        let is_hangup = tokio::select! {
            _ = ticks.tick() => false,
            () = hangup() => true,
        };
        let reading = tls.clone();
        let mut read = pin!(run_blocking("certificate", move || {
            Fault::ReloadPanics.panic_if(|| is_hangup);
            Fault::ReloadHangs.hang_if(|| is_hangup);
            reading.reload(is_hangup)
        }));
        let read = match timeout(READ_TIMEOUT, read.as_mut()).await {
            Ok(read) => read,
            Err(_) => {
                // They may be on a network file system. There is never a second thread that hangs.
                failures.add(1);
                tracing::error!(
                    "the files of the certificate cannot be read: no response for {} s; not logged again until there is one",
                    READ_TIMEOUT.as_secs()
                );
                let read = read.await;
                tracing::info!("there is a response to the read of the certificate's files");
                read
            }
        };
        let has_run = read.is_ok();
        match read.map_err(anyhow::Error::from).and_then(|read| Ok(read?)) {
            Ok(Reload::Skipped) => {}
            Ok(Reload::Unchanged) => tracing::info!("the certificate has not changed"),
            Ok(Reload::Replaced) => {
                tracing::info!(expires_at = %tls.expires_at(), "new certificate in use");
                publish_expiry(tls, shared);
            }
            Err(error) => {
                failures.add(1);
                // One that did not run, for lack of a thread or because of a panic, is logged only the first time in a row. An invalid
                // pair is an error once, and again for each SIGHUP: otherwise, files that have not changed are skipped.
                if has_run || had_run {
                    tracing::error!(%error, "cannot reload the certificate: the previous one stays in use");
                }
            }
        }
        had_run = has_run;
    }
}
