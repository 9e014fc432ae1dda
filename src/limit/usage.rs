//! The usage of a key that is not stored yet.

use super::Admission;
use crate::clock::{Day, Timestamp};

/// The usage of a key on a day, as far as it is not stored yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayUsage {
    pub day: Day,
    /// Requests that counted.
    pub requests: u32,
    /// Requests rejected with a 429.
    pub rejected: u32,
    /// The time of the last request.
    pub last: Timestamp,
}

/// The usage to store, by day, the latest last.
#[derive(Debug, Default)]
pub(super) struct UnstoredUsage(Vec<DayUsage>);

impl UnstoredUsage {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn count(&mut self, admission: Admission, day: Day, now: Timestamp) {
        if self.0.last().is_none_or(|last| last.day != day) {
            self.0.push(DayUsage {
                day,
                requests: 0,
                rejected: 0,
                last: now,
            });
        }
        let last = self.0.len() - 1;
        let today = &mut self.0[last];
        today.last = today.last.max(now);
        match admission {
            Admission::Admitted => today.requests += 1,
            _ => today.rejected += 1,
        }
    }

    pub(super) fn take(&mut self) -> Vec<DayUsage> {
        std::mem::take(&mut self.0)
    }
}
