//! Time, handed in. Owns the two notions of time the service decides by, the moment and the UTC day,
//! and the only place that asks the operating system what time it is. Everything else is told.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment so many milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The moment so many seconds after the epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded up: a moment that is never too early.
    pub const fn as_secs_ceil(self) -> i64 {
        -((-self.0).div_euclid(1000))
    }

    /// The moment `span` later.
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }

    /// The moment `span` earlier.
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis(span)))
    }

    /// Whole seconds from `now` until this moment, rounded up, at least one: what `Retry-After` says.
    pub fn seconds_from(self, now: Timestamp) -> u64 {
        let millis = u64::try_from(self.0.saturating_sub(now.0)).unwrap_or(0);
        millis.div_ceil(1000).max(1)
    }

    /// As in HTTP: `Sun, 15 Nov 2026 08:00:00 GMT`.
    pub fn http_date(self) -> String {
        let moment = jiff::Timestamp::from_second(self.0.div_euclid(1000)).unwrap_or_default();
        // Only a year beyond 9999 has no such form, and that is no moment of jiff's either.
        jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&moment)
            .unwrap_or_default()
    }

    /// The UTC day this moment lies in.
    pub const fn day(self) -> Day {
        Day(self.0.div_euclid(86_400_000))
    }
}

/// A text that is no moment.
#[derive(Debug, thiserror::Error)]
#[error("takes a date, or a date and time, such as 2026-12-24 or 2026-12-24T18:00:00Z")]
pub struct NotAMoment;

/// Reads RFC 3339, or a date, which is its first moment in UTC. To the second.
impl FromStr for Timestamp {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Self, NotAMoment> {
        let date_alone = text.len() == "2026-12-24".len();
        let whole = if date_alone {
            format!("{text}T00:00:00Z")
        } else {
            text.to_owned()
        };
        let moment: jiff::Timestamp = whole.parse().map_err(|_| NotAMoment)?;
        Ok(Self::from_secs(moment.as_second()))
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// As in RFC 3339, to the second: `2026-11-15T08:00:00Z`.
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
    /// The day with this number.
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Days since 1970-01-01.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// The first moment of the day.
    pub const fn start(self) -> Timestamp {
        Timestamp(self.0 * 86_400_000)
    }
}

/// As in `2026-11-15`.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.start().to_string().split_once('T') {
            Some((date, _)) => f.write_str(date),
            None => write!(f, "day {}", self.0),
        }
    }
}

/// Where the time comes from: the system, or a test that moves it.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The clock of the operating system.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until [`Clock::set`] or [`Clock::advance`] moves it. Clones move together.
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(start.0))))
    }

    /// What time it is.
    #[expect(clippy::disallowed_methods, reason = "the one place that asks")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                Timestamp(millis(since.unwrap_or_default()))
            }
            Source::Manual(millis) => Timestamp(millis.load(Ordering::SeqCst)),
        }
    }

    /// What time it is on a clock that a test moves. Another server's clock can then be told to go by it.
    pub fn standing(&self) -> Option<Timestamp> {
        matches!(self.0, Source::Manual(_)).then(|| self.now())
    }

    /// Moves a manual clock to `moment`; the system's clock is not ours to move.
    pub fn set(&self, moment: Timestamp) {
        if let Source::Manual(millis) = &self.0 {
            millis.store(moment.0, Ordering::SeqCst);
        }
    }

    /// Moves a manual clock forward.
    pub fn advance(&self, span: Duration) {
        self.set(self.now().after(span));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_until_a_moment_round_up_and_are_at_least_one() {
        let now = Timestamp::from_millis(10_000);
        assert_eq!(Timestamp::from_millis(11_001).seconds_from(now), 2);
        assert_eq!(Timestamp::from_millis(11_000).seconds_from(now), 1);
        assert_eq!(now.seconds_from(now), 1);
        assert_eq!(Timestamp::from_millis(0).seconds_from(now), 1);
    }

    #[test]
    fn a_moment_is_read_from_a_date_or_a_date_and_time() {
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
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }

    #[test]
    fn moments_and_days_read_as_dates() {
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
