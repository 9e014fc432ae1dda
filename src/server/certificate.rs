//! The certificate of the listeners: loaded at startup, and checked for its expiry.

use std::io;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::shared::Shared;
use crate::config::TlsFiles;
use crate::http::Tls;

pub(super) fn load(files: &TlsFiles) -> anyhow::Result<Tls> {
    let tls = Tls::load(files.cert.clone(), files.key.clone()).map_err(anyhow::Error::msg)?;
    // It stays registered: a signal to reload must not end a server that has just started.
    drop(hangups().context("cannot listen for SIGHUP")?);
    Ok(tls)
}

/// The signals to read the files again.
pub(super) fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// Publishes when the certificate expires. One that has expired, or is not valid yet, is used nevertheless: clients decide whether they
/// accept it.
pub(super) fn publish_expiry(tls: &Tls, shared: &Shared) {
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
