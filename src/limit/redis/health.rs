//! Whether Redis answers in time, as all threads of a node see it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::tally::Counter;

/// Well, or ill. While it is ill, no request waits for it.
#[derive(Debug, Default)]
pub struct Health {
    ill: AtomicBool,
    /// How often it fell ill.
    pub falls: Counter,
}

impl Health {
    /// Whether it answers in time.
    pub fn is_well(&self) -> bool {
        !self.ill.load(Ordering::Relaxed)
    }

    /// Notes that it did not. True for the one who is the first to see it, and has to look after it.
    pub(super) fn fall_ill(&self) -> bool {
        let first = !self.ill.swap(true, Ordering::Relaxed);
        if first {
            self.falls.add(1);
        }
        first
    }

    /// Notes that it answers again.
    pub(super) fn recover(&self) {
        self.ill.store(false, Ordering::Relaxed);
    }
}
