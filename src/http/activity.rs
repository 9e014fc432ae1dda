//! The activity of one connection, as other threads see it: they evict the one that has waited longest for its client.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

/// [`Activity::waiting_since`] of a connection that does not wait for its client: the service is working on a request.
const BUSY: u64 = u64::MAX;

/// A connection that waits for its client to read a response is evicted as if it had waited this much less: its response would be lost.
/// Without a limit, clients that read nothing could keep all others from being served.
const WRITING_GRACE: Duration = Duration::from_secs(10);

/// The activity of one connection, as other threads see it. They only set `evicted`; the thread of the connection writes the rest.
pub(super) struct Activity {
    epoch: Instant,
    /// Since when the connection has been waiting for its client, in nanoseconds since the epoch.
    waiting_since: AtomicU64,
    evicted: AtomicBool,
    /// Wakes the task of the connection.
    task: OnceLock<Waker>,
}

impl Activity {
    /// A new connection, which waits for its client. `epoch` is the origin of its times.
    pub(super) fn new(epoch: Instant) -> Self {
        let activity = Self {
            epoch,
            waiting_since: AtomicU64::new(BUSY),
            evicted: AtomicBool::new(false),
            task: OnceLock::new(),
        };
        activity.mark_waiting(Instant::now());
        activity
    }

    /// Records that the connection has been waiting for its client since `now`.
    pub(super) fn mark_waiting(&self, now: Instant) {
        self.waiting_since.store(self.nanos(now), Ordering::Relaxed);
    }

    /// Records that the connection has been waiting since `now` for its client to read more of a response.
    pub(super) fn mark_writing(&self, now: Instant) {
        self.mark_waiting(now + WRITING_GRACE);
    }

    pub(super) fn mark_busy(&self) {
        self.waiting_since.store(BUSY, Ordering::Relaxed);
    }

    pub(super) fn store_waker(&self, waker: &Waker) {
        if self.task.get().is_none() {
            let _ = self.task.set(waker.clone());
            // With the fence in `evict`: one of the two threads sees what the other has written.
            fence(Ordering::SeqCst);
        }
    }

    /// Whether the connection was evicted, and has to close.
    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The order of eviction: the lowest is evicted first. `None` while the connection does not wait for its client.
    pub(super) fn eviction_rank(&self) -> Option<u64> {
        let since = self.waiting_since.load(Ordering::Relaxed);
        (since != BUSY).then_some(since)
    }

    pub(super) fn evict(&self) {
        self.evicted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
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
