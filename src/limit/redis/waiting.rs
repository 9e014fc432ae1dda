//! Who waits for Redis, and since when. One ticking clock serves all requests of a thread: a timer for each, and room for
//! connecting in each, was a tenth of the instructions of a request.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// How long a question waits at most. No request shall wait longer than 50 ms for Redis; the rest is for coming to know it.
pub(super) const PATIENCE: Duration = Duration::from_millis(TICK.as_millis() as u64 * TICKS as u64);

/// How often the clock ticks.
const TICK: Duration = Duration::from_millis(2);

/// Who has waited so many ticks has waited too long.
const TICKS: usize = 22;

/// The questions of one thread that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// How many there are, by the tick at which they were asked, in a ring.
    asked: [AtomicU32; TICKS],
    now: AtomicUsize,
    /// Whether the clock rests, because nobody waits.
    rests: AtomicBool,
    begins: Notify,
}

/// A question that has no answer yet.
#[derive(Debug)]
pub(super) struct Waits<'a>(&'a AtomicU32);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Waiting {
    /// Notes a question, until what is returned is dropped.
    pub(super) fn begin(&self) -> Waits<'_> {
        let place = &self.asked[self.now.load(Ordering::Relaxed)];
        place.fetch_add(1, Ordering::Relaxed);
        if self.rests.load(Ordering::Relaxed) {
            self.begins.notify_one();
        }
        Waits(place)
    }

    /// Returns when a question has waited too long.
    pub(super) async fn too_long(&self) {
        let mut clock = interval_at(Instant::now() + TICK, TICK);
        // A thread that was kept from running has not given Redis' answer a chance either.
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.nobody() {
                self.rests.store(true, Ordering::Relaxed);
                self.begins.notified().await;
                self.rests.store(false, Ordering::Relaxed);
                clock.reset();
            }
            clock.tick().await;
            if self.tick() {
                return;
            }
        }
    }

    /// Goes on by one tick. True if a question has waited since the clock last stood where it stands now.
    fn tick(&self) -> bool {
        let now = (self.now.load(Ordering::Relaxed) + 1) % TICKS;
        self.now.store(now, Ordering::Relaxed);
        self.asked[now].load(Ordering::Relaxed) > 0
    }

    fn nobody(&self) -> bool {
        self.asked
            .iter()
            .all(|place| place.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::sleep;

    use super::*;

    #[test]
    fn a_question_is_late_after_all_ticks_and_not_before() {
        let waiting = Waiting::default();
        let asked = waiting.begin();
        for _ in 1..TICKS {
            assert!(!waiting.tick());
        }
        assert!(waiting.tick());
        drop(asked);
        assert!(waiting.nobody());
    }

    #[test]
    fn questions_that_are_answered_in_time_are_never_late() {
        let waiting = Waiting::default();
        let mut last = waiting.begin();
        for _ in 0..3 * TICKS {
            assert!(!waiting.tick());
            last = waiting.begin();
        }
        drop(last);
    }

    #[tokio::test]
    async fn it_is_noticed_before_fifty_milliseconds_are_over() {
        let waiting = Waiting::default();
        let mut fastest = Duration::MAX;
        // A busy machine may be late itself, but not every time.
        for _ in 0..10 {
            let began = Cell::new(None);
            let question = async {
                // The clock rests by now.
                sleep(Duration::from_millis(7)).await;
                let _asked = waiting.begin();
                began.set(Some(Instant::now()));
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = waiting.too_long() => {}
                () = question => {}
            }
            fastest = fastest.min(began.get().unwrap().elapsed());
        }
        assert!((42..50).contains(&fastest.as_millis()), "{fastest:?}");
    }
}
