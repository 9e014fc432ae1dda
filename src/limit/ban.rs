//! The temporary ban of a key that sends more requests after being rate limited: when it begins and how long it lasts. Pure arithmetic.
//! `decide.lua` has the same rules for Redis; the model test compares them.

use std::time::Duration;

use crate::clock::Timestamp;

pub(crate) const MAX_BAN_DURATION: Duration = Duration::from_secs(60 * 60);

/// A further ban within this time of the previous one lasts twice as long.
const DOUBLING_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// A ban, active or expired: the length of the next one depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    pub started_at: Timestamp,
    pub until: Timestamp,
}

impl Ban {
    pub fn is_active(&self, now: Timestamp) -> bool {
        now < self.until
    }

    /// The same ban from now on, if a clock that ran ahead has given it a start in the future: a ban is never active for longer than
    /// its length from now.
    pub fn corrected(self, now: Timestamp) -> Option<Self> {
        let ahead = self.started_at.as_millis().saturating_sub(now.as_millis());
        (ahead > 0).then(|| Self {
            started_at: now,
            until: Timestamp::from_millis(self.until.as_millis().saturating_sub(ahead)),
        })
    }
}

/// A ban to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanChange {
    pub ban: Ban,
    /// The start with which the same ban was stored before, if that is in the future because a clock ran ahead.
    pub replaces: Option<Timestamp>,
}

impl From<Ban> for BanChange {
    fn from(ban: Ban) -> Self {
        Self {
            ban,
            replaces: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanPolicy {
    /// The number of rejected requests within one minute that do not result in a ban; one more does. Zero: no new bans.
    pub max_rejections: u32,
    /// The duration of a first ban.
    pub first_duration: Duration,
}

impl Default for BanPolicy {
    fn default() -> Self {
        Self {
            max_rejections: 100,
            first_duration: Duration::from_secs(300),
        }
    }
}

impl BanPolicy {
    /// Whether this number of rejected requests within one minute results in a ban.
    pub const fn exceeded(&self, rejections: u32) -> bool {
        self.max_rejections > 0 && rejections > self.max_rejections
    }

    /// The ban that begins now, given the last one: twice as long if that began within 24 hours, but one hour at most, and
    /// no shorter than a first ban.
    pub fn next(&self, last: Option<Ban>, now: Timestamp) -> Ban {
        let duration = match last {
            Some(last) if now < last.started_at.plus(DOUBLING_PERIOD) => {
                let before = last
                    .until
                    .as_millis()
                    .saturating_sub(last.started_at.as_millis());
                let twice =
                    Duration::from_millis(u64::try_from(before).unwrap_or(0).saturating_mul(2));
                twice.min(MAX_BAN_DURATION).max(self.first_duration)
            }
            _ => self.first_duration,
        };
        Ban {
            started_at: now,
            until: now.plus(duration),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_bans_within_24_hours_double_up_to_an_hour() {
        let policy = BanPolicy::default();
        let mut now = Timestamp::from_secs(1_000_000);
        let mut last = None;
        let mut minutes = Vec::new();
        for _ in 0..6 {
            let ban = policy.next(last, now);
            minutes.push((ban.until.as_millis() - ban.started_at.as_millis()) / 60_000);
            now = ban.until;
            last = Some(ban);
        }
        assert_eq!(minutes, [5, 10, 20, 40, 60, 60]);
        let day_later = last.unwrap().started_at.plus(Duration::from_secs(86_400));
        assert_eq!(
            policy.next(last, day_later).until,
            day_later.plus(policy.first_duration)
        );
        let before = day_later.minus(Duration::from_millis(1));
        assert_eq!(
            policy.next(last, before).until,
            before.plus(MAX_BAN_DURATION)
        );
    }

    #[test]
    fn a_ban_dated_in_the_future_begins_now_with_its_own_length() {
        let at = Timestamp::from_secs;
        let ban = Ban {
            started_at: at(100),
            until: at(400),
        };
        assert_eq!(ban.corrected(at(100)), None);
        let corrected = Ban {
            started_at: at(10),
            until: at(310),
        };
        assert_eq!(ban.corrected(at(10)), Some(corrected));
    }

    #[test]
    fn a_ban_begins_with_the_first_rejection_beyond_the_limit_and_never_when_disabled() {
        assert!(!BanPolicy::default().exceeded(100));
        assert!(BanPolicy::default().exceeded(101));
        assert!(
            !BanPolicy {
                max_rejections: 0,
                ..BanPolicy::default()
            }
            .exceeded(u32::MAX)
        );
    }

    #[test]
    fn a_ban_is_active_until_its_end_and_not_at_it() {
        let ban = BanPolicy::default().next(None, Timestamp::from_secs(100));
        assert!(ban.is_active(Timestamp::from_secs(100)));
        assert!(ban.is_active(Timestamp::from_millis(399_999)));
        assert!(!ban.is_active(Timestamp::from_secs(400)));
    }
}
