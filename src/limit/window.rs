//! Fixed windows aligned to UTC, the minute and the day: pure arithmetic, no clock, no lock. `decide.lua` has the same rules for
//! Redis; the model test compares them.

use crate::clock::Timestamp;
use crate::plan::Limits;

/// A counter over one window of fixed length. If the clock steps back, the counter stays in the window it had reached:
/// no window ever admits more than its limit. The exception is a window more than one ahead of the clock: only
/// a clock that ran ahead and has been corrected since can have reached it, so its count is moved to the current window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<const MILLIS: i64> {
    /// Counted from the epoch.
    pub(crate) number: i64,
    pub(crate) used: u32,
}

pub(crate) type MinuteWindow = Window<60_000>;

pub(crate) type DayWindow = Window<86_400_000>;

impl<const MILLIS: i64> Window<MILLIS> {
    /// Enters the window of `now`, if it is a later one, and returns whether it was. A window that the clock cannot have reached
    /// becomes the current one, with its count.
    pub fn enter(&mut self, now: Timestamp) -> bool {
        let number = now.as_millis().div_euclid(MILLIS);
        let later = number > self.number;
        if later {
            self.number = number;
            self.used = 0;
        } else if self.number > number.saturating_add(1) {
            self.number = number;
        }
        later
    }

    pub fn count(&mut self, requests: u32) {
        self.used = self.used.saturating_add(requests);
    }

    /// Adopts the count that all nodes share, if its window is later, or the same with a higher count. No counted request is lost.
    pub fn catch_up(&mut self, other: &Self) {
        if (other.number, other.used) > (self.number, self.used) {
            *self = *other;
        }
    }

    pub const fn start(&self) -> Timestamp {
        Timestamp::from_millis(self.number.saturating_mul(MILLIS))
    }

    pub fn quota(&self, limit: u32) -> Quota {
        Quota {
            limit,
            remaining: limit.saturating_sub(self.used),
            reset: Timestamp::from_millis(self.number.saturating_add(1).saturating_mul(MILLIS)),
        }
    }
}

/// A limit, its remaining requests, and its reset: what the three rate limit headers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub limit: u32,
    pub remaining: u32,
    pub reset: Timestamp,
}

impl Quota {
    /// Returns the quota that the headers show: the one with fewer requests left; on a tie the one that resets later, which is also
    /// the one to wait for if both are exhausted.
    pub fn tighter(self, other: Self) -> Self {
        let rank = |quota: &Self| (quota.remaining, std::cmp::Reverse(quota.reset));
        if rank(&other) < rank(&self) {
            other
        } else {
            self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    Minute,
    Day,
}

/// The minute and the day of one key, decided together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Windows {
    pub minute: MinuteWindow,
    pub day: DayWindow,
}

impl Windows {
    /// Windows with these numbers and counts.
    pub const fn at((minute, in_minute): (i64, u32), (day, in_day): (i64, u32)) -> Self {
        Self {
            minute: Window {
                number: minute,
                used: in_minute,
            },
            day: Window {
                number: day,
                used: in_day,
            },
        }
    }

    /// Counts one request in both windows, or in neither if one of them is exhausted. Returns whether it was counted.
    pub fn admit(&mut self, limits: Limits) -> bool {
        let admitted = self.minute.used < limits.per_minute() && self.day.used < limits.per_day();
        if admitted {
            self.minute.count(1);
            self.day.count(1);
        }
        admitted
    }

    /// The quota that the headers show.
    pub fn quota(&self, limits: Limits) -> Quota {
        self.minute
            .quota(limits.per_minute())
            .tighter(self.day.quota(limits.per_day()))
    }

    /// Returns the window to wait for once one is exhausted, which is the one that the headers show.
    pub fn exhausted(&self, limits: Limits) -> Period {
        match self.quota(limits) == self.minute.quota(limits.per_minute()) {
            true => Period::Minute,
            false => Period::Day,
        }
    }
}

/// A window that no clock has entered yet.
impl<const MILLIS: i64> Default for Window<MILLIS> {
    fn default() -> Self {
        Self {
            number: i64::MIN,
            used: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(remaining: u32, reset: i64) -> Quota {
        Quota {
            limit: 9,
            remaining,
            reset: Timestamp::from_secs(reset),
        }
    }

    #[test]
    fn headers_show_the_window_with_the_fewest_left_and_on_a_tie_the_later() {
        assert_eq!(quota(1, 60).tighter(quota(2, 90)), quota(1, 60));
        assert_eq!(quota(2, 60).tighter(quota(1, 90)), quota(1, 90));
        assert_eq!(quota(0, 60).tighter(quota(0, 90)), quota(0, 90));
        assert_eq!(quota(0, 90).tighter(quota(0, 60)), quota(0, 90));
        let same_but_for_its_limit = Quota {
            limit: 10,
            ..quota(0, 60)
        };
        assert_eq!(quota(0, 60).tighter(same_but_for_its_limit).limit, 9);
    }

    #[test]
    fn of_two_exhausted_windows_the_one_in_the_headers_is_named() {
        let limits = Limits::new(1, 2).unwrap();
        let minutes_of_a_day = 24 * 60;
        for (minute, named) in [
            (minutes_of_a_day - 2, Period::Day),
            // Both end at midnight.
            (minutes_of_a_day - 1, Period::Minute),
        ] {
            let windows = Windows::at((minute, 1), (0, 2));
            assert_eq!(windows.exhausted(limits), named);
            let limit = match named {
                Period::Minute => limits.per_minute(),
                Period::Day => limits.per_day(),
            };
            assert_eq!(windows.quota(limits).limit, limit);
        }
    }

    #[test]
    fn a_window_is_aligned_and_never_goes_back() {
        let mut minute = MinuteWindow::default();
        assert!(minute.enter(Timestamp::from_millis(119_999)));
        minute.count(1);
        assert_eq!(minute.start(), Timestamp::from_secs(60));
        assert_eq!(
            minute.quota(3),
            Quota {
                limit: 3,
                remaining: 2,
                reset: Timestamp::from_secs(120)
            }
        );
        assert!(
            !minute.enter(Timestamp::from_millis(0)),
            "time stepped back"
        );
        assert_eq!(minute.used, 1);
        assert!(minute.enter(Timestamp::from_millis(120_000)));
        assert_eq!(minute.used, 0);
    }

    #[test]
    fn a_window_more_than_one_ahead_of_the_clock_becomes_the_current_one_with_its_count() {
        let mut minute = MinuteWindow::default();
        minute.enter(Timestamp::from_secs(240));
        minute.count(1);
        assert!(!minute.enter(Timestamp::from_secs(180)), "one ahead");
        assert_eq!((minute.number, minute.used), (4, 1));
        assert!(!minute.enter(Timestamp::from_millis(179_999)), "two ahead");
        assert_eq!((minute.number, minute.used), (2, 1));
        assert!(minute.enter(Timestamp::from_secs(180)));
        assert_eq!((minute.number, minute.used), (3, 0));
    }

    #[test]
    fn a_window_catches_up_with_a_higher_count_or_a_later_window_and_with_no_other() {
        for (other, expected) in [
            ((4, 8), (4, 8)),
            ((4, 6), (4, 7)),
            ((5, 0), (5, 0)),
            ((3, 9), (4, 7)),
        ] {
            let mut windows = Windows::at((4, 7), (4, 7));
            let other = Windows::at(other, other);
            windows.minute.catch_up(&other.minute);
            windows.day.catch_up(&other.day);
            for found in [
                (windows.minute.number, windows.minute.used),
                (windows.day.number, windows.day.used),
            ] {
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_request_counts_in_both_windows_or_in_neither() {
        let limits = Limits::new(2, 3).unwrap();
        for (minute, day, admitted) in [(1, 2, true), (2, 2, false), (1, 3, false)] {
            let mut windows = Windows::at((0, minute), (0, day));
            assert_eq!(windows.admit(limits), admitted);
            let more = u32::from(admitted);
            let used = (windows.minute.used, windows.day.used);
            assert_eq!(used, (minute + more, day + more));
        }
    }
}
