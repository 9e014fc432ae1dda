//! Whether Redis answers in time, as the threads of a node see it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::metric::Counter;

/// Well, unless a thread finds it ill.
#[derive(Debug, Default)]
pub struct Health {
    /// How many threads do.
    ill: AtomicUsize,
    /// How often it fell ill.
    pub falls: Counter,
}

impl Health {
    /// Whether it answers all threads in time.
    pub fn is_well(&self) -> bool {
        self.ill.load(Ordering::Relaxed) == 0
    }
}

/// What one thread finds.
#[derive(Debug, Default)]
pub(super) struct Finding(AtomicBool);

impl Finding {
    /// Notes that it did not answer in time. True for the first thread of the node to find that.
    pub(super) fn fall_ill(&self, health: &Health) -> bool {
        let is_news = !self.0.swap(true, Ordering::Relaxed);
        let first = is_news && health.ill.fetch_add(1, Ordering::Relaxed) == 0;
        if first {
            health.falls.add(1);
        }
        first
    }

    /// Notes that it answers again. True for the last thread of the node to find that.
    pub(super) fn recover(&self, health: &Health) -> bool {
        let is_news = self.0.swap(false, Ordering::Relaxed);
        is_news && health.ill.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_and_the_last_thread_have_something_to_tell() {
        let (health, [one, two]) = (Health::default(), [(); 2].map(|()| Finding::default()));
        assert!(health.is_well() && one.fall_ill(&health));
        assert!(!one.fall_ill(&health) && !two.fall_ill(&health) && !health.is_well());
        assert!(!one.recover(&health) && !health.is_well());
        assert!(two.recover(&health) && !two.recover(&health) && health.is_well());
        assert_eq!(health.falls.get(), 1);
    }
}
