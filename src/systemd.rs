//! The protocol of systemd, and of other service managers that follow it: sockets that are passed to this process, notifications
//! of its state, and the watchdog. Without a service manager all of it does nothing.

mod notify;
mod sockets;

pub use notify::Notifier;
pub use sockets::PassedSockets;

use std::time::Duration;

use anyhow::Context;

/// What the service manager has passed to this process.
#[derive(Default)]
pub struct ServiceManager {
    pub sockets: PassedSockets,
    /// Where to report the state.
    pub notifier: Notifier,
    /// How long the watchdog waits for a keep-alive, if it is enabled.
    pub watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Reads the environment. MUST be called before any thread is started, because it removes variables.
    pub fn from_env() -> anyhow::Result<Self> {
        Ok(Self {
            sockets: PassedSockets::from_env()?,
            notifier: Notifier::from_env().context("NOTIFY_SOCKET")?,
            watchdog: notify::watchdog(),
        })
    }
}
