//! The watchdog of the service manager: it gets a keep-alive only while every worker responds, so that a server whose threads
//! are stuck is restarted. Without a watchdog, workers are not pinged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::systemd::Notifier;

/// Pings the workers, and reports to the service manager.
pub(super) struct Watchdog {
    interval: Duration,
    notifier: Notifier,
    /// The number of the last ping.
    pinged: watch::Sender<u64>,
    /// The last ping to which each worker has responded.
    responded: Vec<Arc<AtomicU64>>,
}

impl Watchdog {
    /// For a service manager that waits this long for a keep-alive.
    pub(super) fn new(time: Duration, notifier: Notifier) -> Self {
        Self {
            // The response to a ping is seen one tick later, and a tick may be late.
            interval: time / 4,
            notifier,
            pinged: watch::Sender::new(0),
            responded: Vec::new(),
        }
    }

    /// The part that runs on a worker's thread: it responds until the server has shut down.
    pub(super) fn echo(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let responded = Arc::new(AtomicU64::new(0));
        self.responded.push(Arc::clone(&responded));
        let mut pinged = self.pinged.subscribe();
        async move {
            while pinged.changed().await.is_ok() {
                let ping = *pinged.borrow_and_update();
                responded.store(ping, Ordering::Relaxed);
            }
        }
    }
}

/// Pings and reports until it is cancelled by a shutdown, which has a separate time limit.
pub(super) async fn run(watchdog: Option<Watchdog>) {
    let Some(watchdog) = watchdog else { return };
    let mut ticks = interval(watchdog.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_logged = false;
    loop {
        ticks.tick().await;
        let pinged = *watchdog.pinged.borrow();
        let stuck = watchdog
            .responded
            .iter()
            .filter(|responded| responded.load(Ordering::Relaxed) != pinged)
            .count();
        // Before the keep-alive, which may wait for the service manager: workers respond meanwhile.
        watchdog.pinged.send_modify(|pinged| *pinged += 1);
        match stuck {
            0 => {
                watchdog.notifier.send("WATCHDOG=1");
                is_logged = false;
            }
            workers if !is_logged => {
                tracing::error!(
                    workers,
                    "workers do not respond: the watchdog gets no keep-alive until they do"
                );
                is_logged = true;
            }
            _ => {}
        }
    }
}
