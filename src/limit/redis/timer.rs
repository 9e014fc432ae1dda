//! The timeout of requests to Redis: a timer wheel, which ticks for all requests of a thread together. A separate
//! timer for each request took a tenth of its instructions.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::fault::Fault;

/// The timeout of a request: less than 50 ms, including the time until the timeout is detected.
pub(super) const RESPONSE_TIMEOUT: Duration =
    Duration::from_millis(TICK.as_millis() as u64 * TICKS_TO_EXPIRY as u64);

const TICK: Duration = Duration::from_millis(2);

const TICKS_TO_EXPIRY: usize = 22;

/// The timers of one thread.
#[derive(Debug, Default)]
pub(super) struct TimerWheel {
    /// The number of timers by the tick at which they started, in a ring.
    started: [AtomicU32; TICKS_TO_EXPIRY],
    /// The number of ticks so far.
    now: AtomicUsize,
    /// Whether the wheel is stopped, because there is no timer.
    is_idle: AtomicBool,
    woken: Notify,
}

/// The timer of one request. It runs until it is dropped.
pub(super) struct Timer<'a> {
    wheel: &'a TimerWheel,
    started_at: usize,
}

impl Timer<'_> {
    /// Whether the request has waited for half the timeout, or longer.
    pub(super) fn is_late(&self) -> bool {
        self.wheel.now.load(Ordering::Relaxed) - self.started_at >= TICKS_TO_EXPIRY / 2
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.wheel
            .started(self.started_at)
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl TimerWheel {
    pub(super) fn start(&self) -> Timer<'_> {
        let started_at = self.now.load(Ordering::Relaxed);
        self.started(started_at).fetch_add(1, Ordering::Relaxed);
        if self.is_idle.load(Ordering::Relaxed) {
            self.woken.notify_one();
        }
        Timer {
            wheel: self,
            started_at,
        }
    }

    fn started(&self, tick: usize) -> &AtomicU32 {
        &self.started[tick % TICKS_TO_EXPIRY]
    }

    pub(super) async fn expired(&self) {
        let tick = Fault::WaitsForRedis.choose(TICK, 25 * TICK);
        let mut ticks = interval_at(Instant::now() + tick, tick);
        // A thread that was not running could not read Redis's response either.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.is_empty() {
                self.is_idle.store(true, Ordering::Relaxed);
                self.woken.notified().await;
                self.is_idle.store(false, Ordering::Relaxed);
                ticks.reset();
            }
            ticks.tick().await;
            if self.tick() {
                return;
            }
        }
    }

    /// Advances by one tick. True if a timer has been running for a whole turn.
    fn tick(&self) -> bool {
        let now = self.now.load(Ordering::Relaxed) + 1;
        self.now.store(now, Ordering::Relaxed);
        self.started(now).load(Ordering::Relaxed) > 0
    }

    fn is_empty(&self) -> bool {
        self.started
            .iter()
            .all(|count| count.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::sleep;

    use super::*;

    #[test]
    fn a_timer_expires_after_all_ticks_and_not_before() {
        let wheel = TimerWheel::default();
        let timer = wheel.start();
        for _ in 1..TICKS_TO_EXPIRY {
            assert!(!wheel.tick());
        }
        assert!(wheel.tick());
        let next = wheel.start();
        assert!(timer.is_late() && !next.is_late());
        drop((timer, next));
        assert!(wheel.is_empty());
    }

    #[test]
    fn timers_of_requests_that_end_in_time_never_expire() {
        let wheel = TimerWheel::default();
        let mut last = wheel.start();
        for _ in 0..3 * TICKS_TO_EXPIRY {
            assert!(!wheel.tick());
            last = wheel.start();
        }
        drop(last);
    }

    #[tokio::test]
    async fn a_timeout_is_noticed_within_fifty_milliseconds() {
        let wheel = TimerWheel::default();
        let mut fastest = Duration::MAX;
        // A busy machine may be late itself, but not every time.
        for _ in 0..10 {
            let began = Cell::new(None);
            let request = async {
                // The wheel is idle by now.
                sleep(Duration::from_millis(7)).await;
                let _timer = wheel.start();
                began.set(Some(Instant::now()));
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = wheel.expired() => {}
                () = request => {}
            }
            fastest = fastest.min(began.get().unwrap().elapsed());
        }
        assert!((42..50).contains(&fastest.as_millis()), "{fastest:?}");
    }
}
