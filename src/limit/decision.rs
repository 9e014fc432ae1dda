//! The decision about one request: made by this node alone, or by a limiter shared by all nodes, to which this
//! node sends its state.

use super::ban::{Ban, BanChange};
use super::window::{Period, Quota, Windows};
use crate::clock::Timestamp;
use crate::plan::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub admission: Admission,
    /// The quota that the headers of the response show.
    pub quota: Quota,
    /// The time of the decision: by Redis's clock if Redis decided, otherwise by this node's.
    pub now: Timestamp,
    /// Whether the meter had nothing to store before this request.
    pub first_unstored: bool,
    /// A ban that is to be stored and is not new: a clock that ran ahead had given it a start in the future, and this request has
    /// corrected that; or the store does not have it.
    pub unstored_ban: Option<BanChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Served, and counted in both windows.
    Admitted,
    /// Rejected: a window is exhausted.
    RateLimited {
        by: Period,
        /// The time from which a request is served again.
        until: Timestamp,
    },
    /// Rejected: the key is banned.
    Banned {
        /// The time from which a request is served again: the end of the ban, or of an exhausted window that ends later.
        until: Timestamp,
        /// The ban, if it began with this request.
        new: Option<Ban>,
    },
}

impl Admission {
    pub(super) fn rate_limited(windows: &Windows, limits: Limits) -> Self {
        Self::RateLimited {
            by: windows.exhausted(limits),
            until: windows.quota(limits).reset,
        }
    }

    pub(super) fn banned(ban: Ban, is_new: bool, windows: &Windows, limits: Limits) -> Self {
        let quota = windows.quota(limits);
        Self::Banned {
            until: match quota.remaining {
                0 => ban.until.max(quota.reset),
                _ => ban.until,
            },
            new: is_new.then_some(ban),
        }
    }

    /// Returns the quota that the headers show: a ban is a window with nothing left, besides the other two.
    pub(super) fn quota(&self, windows: &Windows, limits: Limits) -> Quota {
        let quota = windows.quota(limits);
        match *self {
            Self::Banned { until, .. } => quota.tighter(Quota {
                limit: limits.per_minute(),
                remaining: 0,
                reset: until,
            }),
            _ => quota,
        }
    }
}

/// The state of a key on one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeState {
    pub windows: Windows,
    pub ban: Option<Ban>,
    pub unbanned_at: Option<Timestamp>,
}

/// A decision for all nodes.
#[derive(Clone, Copy, Debug)]
pub struct SharedDecision {
    pub now: Timestamp,
    /// Whether the request was counted.
    pub admitted: bool,
    pub is_new_ban: bool,
    pub windows: Windows,
    /// The last ban, active or expired.
    pub ban: Option<Ban>,
    /// The last unban that the requesting node knew of.
    pub unban_known: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits::new(5, 10).unwrap()
    }

    fn ban_until(secs: i64) -> Ban {
        Ban {
            started_at: Timestamp::from_secs(0),
            until: Timestamp::from_secs(secs),
        }
    }

    #[test]
    fn a_banned_key_waits_for_the_end_of_the_ban_or_of_an_exhausted_window_that_ends_later() {
        let limits = limits();
        // The minute ends at 60 s, the day at 86,400 s.
        for (in_minute, in_day, ban, until) in [
            (4, 4, 30, 30),
            (5, 5, 30, 60),
            (5, 5, 90, 90),
            (5, 10, 90, 86_400),
        ] {
            let windows = Windows::at((0, in_minute), (0, in_day));
            let banned = Admission::banned(ban_until(ban), true, &windows, limits);
            let until = Timestamp::from_secs(until);
            let new = Some(ban_until(ban));
            assert_eq!(banned, Admission::Banned { until, new });
            let quota = banned.quota(&windows, limits);
            assert_eq!((quota.remaining, quota.reset), (0, until));
        }
    }

    #[test]
    fn a_rate_limited_key_waits_for_the_window_that_is_exhausted_the_day_if_both_are() {
        let limits = limits();
        for (in_minute, in_day, by, until) in [
            (5, 9, Period::Minute, 60),
            (0, 10, Period::Day, 86_400),
            (5, 10, Period::Day, 86_400),
        ] {
            let windows = Windows::at((0, in_minute), (0, in_day));
            let limited = Admission::rate_limited(&windows, limits);
            let until = Timestamp::from_secs(until);
            assert_eq!(limited, Admission::RateLimited { by, until });
            assert_eq!(limited.quota(&windows, limits), windows.quota(limits));
        }
    }
}
