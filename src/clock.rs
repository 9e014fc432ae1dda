//! Points in time, UTC days, and the clock, which is passed to whatever needs it. This is the only file that reads the system clock.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Seconds since the epoch, rounded up, so that it is never too early.
    pub const fn as_secs_ceil(self) -> i64 {
        -((-self.0).div_euclid(1000))
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    /// Seconds from `now` until then, rounded up, at least one: the value of `Retry-After`.
    pub fn seconds_from(self, now: Timestamp) -> u64 {
        let millis = u64::try_from(self.0.saturating_sub(now.0)).unwrap_or(0);
        millis.div_ceil(1000).max(1)
    }

    /// The format of HTTP: `Sun, 15 Nov 2026 08:00:00 GMT`.
    pub fn http_date(self) -> String {
        // A year that jiff cannot represent, after 9999, becomes 1970.
        let moment = jiff::Timestamp::from_second(self.0.div_euclid(1000)).unwrap_or_default();
        // Fails only for years before 0.
        jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&moment)
            .unwrap_or_default()
    }

    pub const fn day(self) -> Day {
        Day(self.0.div_euclid(86_400_000))
    }
}

/// Parses RFC 3339, truncated to seconds, or a date, which means its start in UTC.
impl FromStr for Timestamp {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let date_alone = text.len() == "2030-12-24".len();
        let whole = if date_alone {
            format!("{text}T00:00:00Z")
        } else {
            text.to_owned()
        };
        // 9999-12-30T22:00:00Z is the latest second that jiff can represent.
        let problem = "must be a date, or a date and time, such as 2030-12-24 or 2030-12-24T18:00:00Z, at most 9999-12-30T22:00:00Z";
        // jiff ignores the time zone in `2030-12-24T18:00:00Z[America/New_York]`, which RFC 3339 does not have.
        if whole.contains('[') {
            return Err(problem);
        }
        let moment: jiff::Timestamp = whole.parse().map_err(|_| problem)?;
        Ok(Self::from_secs(moment.as_second()))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// RFC 3339, to the second: `2026-11-15T08:00:00Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0.div_euclid(1000)) {
            Ok(moment) => moment.fmt(f),
            Err(_) => write!(f, "@{}", self.0),
        }
    }
}

/// A UTC day, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

impl Day {
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Days since 1970-01-01.
    pub const fn number(self) -> i64 {
        self.0
    }

    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub const fn previous(self) -> Self {
        Self(self.0 - 1)
    }

    pub const fn start(self) -> Timestamp {
        Timestamp(self.0 * 86_400_000)
    }
}

/// `2026-11-15`
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.start().to_string().split_once('T') {
            Some((date, _)) => f.write_str(date),
            None => write!(f, "day {}", self.0),
        }
    }
}

/// A reading of another clock, and how long it took. Its age is half of that, plus or minus the other half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    pub time: Timestamp,
    /// From the request to the response.
    pub round_trip: Duration,
}

/// The source of time: the system, or a test that moves it. The system clock can be corrected by a reference clock, for all clones at
/// once.
#[derive(Clone)]
pub struct Clock(TimeSource);

#[derive(Clone)]
enum TimeSource {
    System(Arc<Correction>),
    Manual(Arc<AtomicI64>),
}

/// The correction by the reference clock. Between two samples its time is extrapolated by the monotonic clock, so that a step of the
/// system clock changes nothing.
struct Correction {
    started: Instant,
    /// The reference time at `started`; [`UNKNOWN_BASE`] before the first sample.
    base: AtomicI64,
    /// How many milliseconds the system clock was ahead at the last sample.
    ahead: AtomicI64,
    /// The system time that was observed last, in milliseconds.
    observed: AtomicI64,
    /// Whether the system clock was set back since the start.
    was_set_back: AtomicBool,
}

const UNKNOWN_BASE: i64 = i64::MIN;

/// Differences in milliseconds that are ignored, beyond the uncertainty of a sample: otherwise two clocks that agree would be corrected
/// by a millisecond, back and forth.
const TOLERANCE_MILLIS: u64 = 5;

impl Clock {
    pub fn system() -> Self {
        Self(TimeSource::System(Arc::new(Correction::new())))
    }

    /// A clock that does not move until [`Clock::set`] or [`Clock::advance`] moves it. Clones move together.
    pub fn manual(start: Timestamp) -> Self {
        Self(TimeSource::Manual(Arc::new(AtomicI64::new(start.0))))
    }

    /// Returns the time, by the reference clock if there is one.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            TimeSource::System(correction) => correction.now(),
            TimeSource::Manual(millis) => Timestamp(millis.load(Ordering::SeqCst)),
        }
    }

    /// Corrects the clock by a sample of the reference clock. A manual clock is not corrected.
    pub fn correct(&self, sample: ClockSample) {
        if let TimeSource::System(correction) = &self.0 {
            correction.correct(sample);
        }
    }

    /// How many milliseconds the system clock is ahead of the reference clock; negative if it is behind.
    pub fn ahead(&self) -> i64 {
        match &self.0 {
            TimeSource::System(correction) => correction.ahead.load(Ordering::Relaxed),
            TimeSource::Manual(_) => 0,
        }
    }

    /// Detects whether the system clock is set back. To be called several times a second.
    pub fn observe(&self) {
        if let TimeSource::System(correction) = &self.0 {
            correction.observe(system_time());
        }
    }

    /// Whether its time is that of the system clock, which was never set back: it is not manual, and has read no reference clock.
    pub fn is_steady_system_clock(&self) -> bool {
        match &self.0 {
            TimeSource::System(correction) => {
                correction.base.load(Ordering::Relaxed) == UNKNOWN_BASE
                    && !correction.was_set_back.load(Ordering::Relaxed)
            }
            TimeSource::Manual(_) => false,
        }
    }

    /// The time of a manual clock, so that another server can use it.
    pub fn manual_time(&self) -> Option<Timestamp> {
        matches!(self.0, TimeSource::Manual(_)).then(|| self.now())
    }

    /// Moves a manual clock; the system clock is left alone.
    pub fn set(&self, moment: Timestamp) {
        if let TimeSource::Manual(millis) = &self.0 {
            millis.store(moment.0, Ordering::SeqCst);
        }
    }

    pub fn advance(&self, duration: Duration) {
        self.set(self.now().plus(duration));
    }
}

impl Correction {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            base: AtomicI64::new(UNKNOWN_BASE),
            ahead: AtomicI64::new(0),
            observed: AtomicI64::new(0),
            was_set_back: AtomicBool::new(false),
        }
    }

    fn now(&self) -> Timestamp {
        match self.base.load(Ordering::Relaxed) {
            UNKNOWN_BASE => system_time(),
            base => Timestamp(base.saturating_add(millis(self.started.elapsed()))),
        }
    }

    fn observe(&self, system: Timestamp) {
        if self.observed.swap(system.0, Ordering::Relaxed) > system.0 {
            self.was_set_back.store(true, Ordering::Relaxed);
        }
    }

    fn correct(&self, sample: ClockSample) {
        self.correct_at(sample, system_time(), self.started.elapsed());
    }

    fn correct_at(&self, sample: ClockSample, system: Timestamp, elapsed: Duration) {
        let base_of = |time: Timestamp| time.minus(elapsed).as_millis();
        let base = match self.base.load(Ordering::Relaxed) {
            UNKNOWN_BASE => base_of(system),
            base => base,
        };
        let half = sample.round_trip / 2;
        let measured = base_of(sample.time.plus(half));
        let tolerance = millis(half).unsigned_abs().saturating_add(TOLERANCE_MILLIS);
        let base = match measured.abs_diff(base) > tolerance {
            true => measured,
            false => base,
        };
        self.base.store(base, Ordering::Relaxed);
        let ahead = base_of(system).saturating_sub(base);
        self.ahead.store(ahead, Ordering::Relaxed);
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp(millis(since.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_until_a_timestamp_round_up_and_are_at_least_one() {
        let now = Timestamp::from_millis(10_000);
        assert_eq!(Timestamp::from_millis(11_001).seconds_from(now), 2);
        assert_eq!(Timestamp::from_millis(11_000).seconds_from(now), 1);
        assert_eq!(now.seconds_from(now), 1);
        assert_eq!(Timestamp::from_millis(0).seconds_from(now), 1);
    }

    #[test]
    fn a_timestamp_is_parsed_from_a_date_or_a_date_and_time() {
        for (text, shown) in [
            ("2026-12-24", "2026-12-24T00:00:00Z"),
            ("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z"),
            ("2026-12-24T18:00:00.9+01:00", "2026-12-24T17:00:00Z"),
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "tomorrow",
            "2026-13-01",
            "2026-02-30",
            "24.12.2026",
            "2026-12-24T18:00",
            "18:00",
            "2026-12-24T18:00:00Z[America/New_York]",
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }

    /// The correction of a node that is `ahead` milliseconds ahead, after a sample with this round trip.
    fn sampled(correction: &Correction, ahead: i64, elapsed: u64, round_trip: u64) -> (i64, i64) {
        let (elapsed, round_trip) = (
            Duration::from_millis(elapsed),
            Duration::from_millis(round_trip),
        );
        let truth = Timestamp::from_secs(1_000_000).plus(elapsed);
        let sample = ClockSample {
            time: truth.minus(round_trip / 2),
            round_trip,
        };
        let system = Timestamp(truth.0 + ahead);
        correction.correct_at(sample, system, elapsed);
        let base = correction.base.load(Ordering::Relaxed);
        (
            base - 1_000_000_000,
            correction.ahead.load(Ordering::Relaxed),
        )
    }

    #[test]
    fn a_clock_that_is_wrong_by_more_than_the_uncertainty_of_a_sample_is_corrected() {
        for ahead in [86_400_000, -86_400_000, 26, -26] {
            let correction = Correction::new();
            assert_eq!(sampled(&correction, ahead, 0, 40), (0, ahead));
            let now = correction.now().0 - 1_000_000_000;
            assert!((0..10_000).contains(&now), "{now}");
        }
    }

    #[test]
    fn a_clock_that_may_be_right_is_left_alone_even_after_a_long_round_trip() {
        let correction = Correction::new();
        assert_eq!(sampled(&correction, 4, 0, 0), (4, 0));
        assert_eq!(sampled(&correction, 24, 500, 40), (4, 20));
        assert_eq!(sampled(&correction, -900, 1_000, 2_000), (4, -904));
    }

    #[test]
    fn a_step_of_the_system_clock_changes_only_how_far_it_is_reported_to_be_ahead() {
        let correction = Correction::new();
        assert_eq!(sampled(&correction, 0, 0, 2), (0, 0));
        assert_eq!(sampled(&correction, 3_600_000, 500, 2), (0, 3_600_000));
        assert_eq!(sampled(&correction, 0, 1_000, 2), (0, 0));
    }

    #[test]
    fn timestamps_and_days_are_displayed_as_dates() {
        let moment = Timestamp::from_secs(1_794_700_800);
        assert_eq!(moment.to_string(), "2026-11-15T00:00:00Z");
        assert_eq!(moment.day().to_string(), "2026-11-15");
        assert_eq!(moment.http_date(), "Sun, 15 Nov 2026 00:00:00 GMT");
        assert_eq!(moment.day().start(), moment);
        assert_eq!(
            Timestamp::from_millis(moment.as_millis() - 1)
                .day()
                .number(),
            moment.day().number() - 1
        );
    }
}
