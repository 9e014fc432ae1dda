//! Ctrl-c: the first one ends the run between two requests, so that servers and folders are cleared away; the second
//! one ends it at once.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Listens from now on.
pub(crate) fn listen() -> Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(asked))?;
        flag::register(signal, Arc::clone(asked))?;
    }
    Ok(())
}

/// Fails once the user has asked to stop.
pub(crate) fn check() -> Result<()> {
    if ASKED
        .get()
        .is_some_and(|asked| asked.load(Ordering::Relaxed))
    {
        bail!("stopped");
    }
    Ok(())
}
