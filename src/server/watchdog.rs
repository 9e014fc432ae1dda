//! The watchdog of the service manager: it gets a sign of life only while every worker responds, so that a server whose threads
//! are stuck is restarted. Without a watchdog, workers are not asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::systemd::{Notifier, State};

/// Asks the workers, and reports to the service manager.
#[derive(Debug)]
pub(super) struct Watchdog {
    interval: Duration,
    notifier: Notifier,
    /// The number of the last question.
    asked: watch::Sender<u64>,
    /// The last question that each worker has answered.
    answered: Vec<Arc<AtomicU64>>,
}

/// Answers for one worker.
#[derive(Debug)]
pub(super) struct Echo {
    asked: watch::Receiver<u64>,
    answered: Arc<AtomicU64>,
}

impl Watchdog {
    /// A watchdog that waits this long for a sign of life.
    pub(super) fn new(time: Duration, notifier: Notifier) -> Self {
        Self {
            // An answer is seen one interval after its question, and one more may be late.
            interval: time / 4,
            notifier,
            asked: watch::Sender::new(0),
            answered: Vec::new(),
        }
    }

    /// The part that runs on a worker's thread.
    pub(super) fn echo(&mut self) -> Echo {
        let answered = Arc::new(AtomicU64::new(0));
        self.answered.push(Arc::clone(&answered));
        Echo {
            asked: self.asked.subscribe(),
            answered,
        }
    }
}

impl Echo {
    /// Answers until the server has shut down.
    pub(super) async fn run(mut self) {
        while self.asked.changed().await.is_ok() {
            let question = *self.asked.borrow_and_update();
            self.answered.store(question, Ordering::Relaxed);
        }
    }
}

/// Asks and reports until the server shuts down, which has a time limit of its own.
pub(super) async fn run(watchdog: Option<Watchdog>, mut shutdown: watch::Receiver<bool>) {
    let Some(watchdog) = watchdog else { return };
    let mut ticks = interval(watchdog.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_logged = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = shutdown.wait_for(|stop| *stop) => return,
        }
        let asked = *watchdog.asked.borrow();
        let stuck = watchdog
            .answered
            .iter()
            .filter(|answered| answered.load(Ordering::Relaxed) != asked);
        match stuck.count() {
            0 => {
                watchdog.notifier.send(&[State::Watchdog]);
                is_logged = false;
            }
            workers if !is_logged => {
                tracing::error!(workers, "workers do not respond: the watchdog is not reset");
                is_logged = true;
            }
            _ => {}
        }
        watchdog.asked.send_modify(|asked| *asked += 1);
    }
}
