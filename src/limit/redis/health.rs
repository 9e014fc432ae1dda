//! The health of Redis: whether it responds to each thread of a node in time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::counter::Counter;

/// The health of Redis for a node: unhealthy while Redis is unhealthy for any of its threads.
#[derive(Debug, Default)]
pub struct RedisHealth {
    /// The number of threads for which it is unhealthy.
    unhealthy: AtomicUsize,
    /// The number of times it became unhealthy.
    pub outages: Counter,
}

impl RedisHealth {
    /// Whether it responds to all threads in time.
    pub fn is_healthy(&self) -> bool {
        self.unhealthy.load(Ordering::Relaxed) == 0
    }
}

/// Whether it is unhealthy for one thread.
#[derive(Debug, Default)]
pub(super) struct ThreadHealth(AtomicBool);

impl ThreadHealth {
    /// Records that it did not respond in time. True for the first thread of the node.
    pub(super) fn mark_unhealthy(&self, health: &RedisHealth) -> bool {
        let is_change = !self.0.swap(true, Ordering::Relaxed);
        let first = is_change && health.unhealthy.fetch_add(1, Ordering::Relaxed) == 0;
        if first {
            health.outages.add(1);
        }
        first
    }

    /// Records that it responds again. True for the last thread of the node.
    pub(super) fn mark_healthy(&self, health: &RedisHealth) -> bool {
        let is_change = self.0.swap(false, Ordering::Relaxed);
        is_change && health.unhealthy.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_and_the_last_thread_change_the_health_of_the_node() {
        let (health, [one, two]) = (
            RedisHealth::default(),
            [(); 2].map(|()| ThreadHealth::default()),
        );
        assert!(health.is_healthy() && one.mark_unhealthy(&health));
        assert!(
            !one.mark_unhealthy(&health) && !two.mark_unhealthy(&health) && !health.is_healthy()
        );
        assert!(!one.mark_healthy(&health) && !health.is_healthy());
        assert!(two.mark_healthy(&health) && !two.mark_healthy(&health) && health.is_healthy());
        assert_eq!(health.outages.get(), 1);
    }
}
