//! Time without the pauses of the machine. A virtual machine is stopped for hundreds of milliseconds now and then, and a busy one
//! runs a process late: neither is caused by what a test measures.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a thread that does nothing else ticks.
const TICK: Duration = Duration::from_millis(2);

/// How late a tick may be without a pause.
const LATE: Duration = Duration::from_millis(50);

struct Ticks {
    last: Instant,
    /// The sum of all pauses so far.
    paused: Duration,
}

impl Ticks {
    /// The sum of all pauses, with one that has only just ended.
    fn paused(&self, now: Instant) -> Duration {
        self.paused + (now - self.last).saturating_sub(TICK + LATE)
    }
}

fn ticks() -> MutexGuard<'static, Ticks> {
    static TICKS: LazyLock<Mutex<Ticks>> = LazyLock::new(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(TICK);
                let mut ticks = ticks();
                let now = Instant::now();
                (ticks.paused, ticks.last) = (ticks.paused(now), now);
            }
        });
        Mutex::new(Ticks {
            last: Instant::now(),
            paused: Duration::ZERO,
        })
    });
    TICKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A measurement that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Instant,
    paused: Duration,
}

impl Stopwatch {
    /// Begins now.
    pub fn start() -> Self {
        let ticks = ticks();
        let began = Instant::now();
        Self {
            began,
            paused: ticks.paused(began),
        }
    }

    /// All time since then.
    pub fn elapsed_with_pauses(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time since then, without pauses.
    pub fn elapsed(&self) -> Duration {
        let ticks = ticks();
        let now = Instant::now();
        let paused = ticks.paused(now) - self.paused;
        (now - self.began).saturating_sub(paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_and_a_pause_of_all_threads_does_not() {
        let wait = Duration::from_millis(300);
        // One of these is without a pause.
        let waits = [(); 5].map(|()| {
            let watch = Stopwatch::start();
            std::thread::sleep(wait);
            watch.elapsed()
        });
        assert!(waits.iter().any(|it| *it >= wait - LATE), "{waits:?}");
        // Nothing ticks while this is locked, as in a pause.
        let (watch, paused) = (Stopwatch::start(), ticks());
        std::thread::sleep(wait);
        drop(paused);
        let waited = watch.elapsed();
        assert!(waited < wait / 2, "{waited:?}");
    }
}
