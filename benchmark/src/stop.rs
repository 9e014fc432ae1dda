//! Ctrl-C: the first one stops the run between two requests and cleans up servers and directories, the second one exits immediately.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the signal handlers.
pub(crate) fn listen() -> Result<()> {
    let requested = REQUESTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(requested))?;
        flag::register(signal, Arc::clone(requested))?;
    }
    Ok(())
}

/// Fails if a signal was received.
pub(crate) fn check() -> Result<()> {
    if REQUESTED
        .get()
        .is_some_and(|requested| requested.load(Ordering::Relaxed))
    {
        bail!("interrupted");
    }
    Ok(())
}
