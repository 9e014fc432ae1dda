//! Deletes old records. What is deleted because the clock is ahead cannot be restored: retries would create animals twice, and daily
//! limits would start over. So the clock must have run for an hour without a step.

use std::time::{Duration, Instant};

use super::super::pace;
use super::super::shared::Shared;
use crate::clock::Timestamp;
use crate::fault::Fault;
use crate::store::{self, IdempotencyRecord, UsageBatch};

/// How often old records are deleted.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// How long the clock must have run without a step: long enough for a machine to correct it after booting.
const STEADY_TIME: Duration = Duration::from_secs(60 * 60);
/// The smallest difference from the monotonic clock that counts as a step. Slewing (NTP) changes a clock by less within an interval.
const MIN_STEP: Duration = Duration::from_secs(10);

/// Detects steps of the system clock.
pub(super) struct StepDetector {
    since: Instant,
    last: (Instant, Timestamp),
}

impl StepDetector {
    pub(super) fn new(instant: Instant, now: Timestamp) -> Self {
        Self {
            since: instant,
            last: (instant, now),
        }
    }

    /// For how long the clock, which shows this time now, has not stepped.
    fn steady_for(&mut self, instant: Instant, now: Timestamp) -> Duration {
        let (last, time) = self.last;
        let expected = time.plus(instant - last);
        if now > expected.plus(MIN_STEP) || now < expected.minus(MIN_STEP) {
            self.since = instant;
        }
        self.last = (instant, now);
        instant - self.since
    }
}

/// Deletes the records of creations that can no longer be retried, and usage that is no longer kept.
pub(super) async fn run(shared: &Shared, step_detector: &mut StepDetector) -> store::Result<()> {
    let (store, now) = (&shared.store, shared.clock.now());
    let is_steady = step_detector.steady_for(Instant::now(), now) >= STEADY_TIME;
    // A manual clock is always right.
    if !is_steady && shared.clock.manual_time().is_none() && !Fault::SweepsAtOnce.is_enabled() {
        return Ok(());
    }
    let records_before = now.minus(IdempotencyRecord::RETENTION);
    pace::in_chunks(async || store.sweep_idempotency(records_before).await).await?;
    let first_day = now.minus(shared.keep_usage).day();
    let batches_before = now.minus(UsageBatch::RETENTION);
    pace::in_chunks(async || store.sweep_usage(first_day, batches_before).await).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_clock_begins_the_wait_again_and_a_correction_does_not() {
        let (began, start) = (Instant::now(), Timestamp::from_secs(1_794_758_400));
        let seconds = Duration::from_secs;
        let mut clock = StepDetector::new(began, start);
        for (elapsed, shown, lasts) in [
            (60, 60, 60),
            (120, 123, 120),
            (180, 3_600, 0),
            (240, 3_660, 60),
            (300, 300, 0),
        ] {
            let now = start.plus(seconds(shown));
            assert_eq!(
                clock.steady_for(began + seconds(elapsed), now),
                seconds(lasts)
            );
        }
    }
}
