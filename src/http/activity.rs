//! The activity of one connection, as other threads see it: they evict the one that has been idle longest.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use tokio::time::Instant;

/// [`Activity::idle_since`] of a connection that does not wait for its client: the service is working on a request.
const BUSY: u64 = u64::MAX;

/// Part of [`Activity::idle_since`] of a connection whose client is reading its response: it is evicted after all idle ones.
const WRITING: u64 = 1 << 63;

/// The activity of one connection, as other threads see it. They only set `evicted`; the thread of the connection writes the rest.
pub(super) struct Activity {
    epoch: Instant,
    /// Since when the connection has been waiting for its client, in nanoseconds after the epoch.
    idle_since: AtomicU64,
    evicted: AtomicBool,
    /// Wakes the task of the connection.
    task: OnceLock<Waker>,
}

impl Activity {
    /// A new connection, which waits for its client. Times are after the epoch.
    pub(super) fn new(epoch: Instant) -> Self {
        let activity = Self {
            epoch,
            idle_since: AtomicU64::new(BUSY),
            evicted: AtomicBool::new(false),
            task: OnceLock::new(),
        };
        activity.mark_idle(Instant::now());
        activity
    }

    /// Records that the connection has been waiting for its client since `now`.
    pub(super) fn mark_idle(&self, now: Instant) {
        self.idle_since.store(self.nanos(now), Ordering::Relaxed);
    }

    /// Records that the connection has been waiting since `now` for its client to read more of a response.
    pub(super) fn mark_writing(&self, now: Instant) {
        let since = self.nanos(now) | WRITING;
        self.idle_since.store(since, Ordering::Relaxed);
    }

    pub(super) fn mark_busy(&self) {
        self.idle_since.store(BUSY, Ordering::Relaxed);
    }

    pub(super) fn store_waker(&self, waker: &Waker) {
        self.task.get_or_init(|| waker.clone());
    }

    /// Whether the connection was evicted, and has to close.
    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The order of eviction: the lowest is evicted first. `None` while the connection does not wait for its client.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let since = self.idle_since.load(Ordering::Relaxed);
        (since != BUSY).then_some(since)
    }

    pub(super) fn evict(&self) {
        self.evicted.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(super) fn wake(&self) {
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    fn nanos(&self, now: Instant) -> u64 {
        now.duration_since(self.epoch).as_nanos() as u64
    }
}
