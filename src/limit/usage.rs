//! The usage of a key that is not stored yet.

use super::Admission;
use crate::clock::{Day, Timestamp};

/// The usage of a key on a day, as far as it is not stored yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayUsage {
    pub day: Day,
    /// Requests that were admitted.
    pub requests: u32,
    /// Requests rejected with a 429.
    pub rejected: u32,
    /// The time of the last request.
    pub last: Timestamp,
}

/// Counts a request in the usage to store, by day, the latest last.
pub(super) fn count(unstored: &mut Vec<DayUsage>, admission: Admission, day: Day, now: Timestamp) {
    if unstored.last().is_none_or(|last| last.day != day) {
        unstored.push(DayUsage {
            day,
            requests: 0,
            rejected: 0,
            last: now,
        });
    }
    let last = unstored.len() - 1;
    let today = &mut unstored[last];
    today.last = today.last.max(now);
    match admission {
        Admission::Admitted => today.requests = today.requests.saturating_add(1),
        _ => today.rejected = today.rejected.saturating_add(1),
    }
}
