//! The temporary ban of a key that continues after being rate limited: when it begins and how long it lasts. Pure arithmetic.

use std::time::Duration;

use crate::clock::Timestamp;

/// No ban lasts longer than this.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// A further ban within this time of the one before lasts twice as long.
const MEMORY: Duration = Duration::from_secs(24 * 60 * 60);

/// A ban, running or over: the next one is measured by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// When it began.
    pub began: Timestamp,
    /// When it ends.
    pub until: Timestamp,
}

impl Ban {
    /// Whether it is in force at this moment.
    pub fn holds(&self, now: Timestamp) -> bool {
        now < self.until
    }

    /// The same ban from now on, if a clock that ran ahead has dated it into the future: a ban never holds longer than
    /// its length from now.
    pub fn moved_to(self, now: Timestamp) -> Option<Self> {
        let ahead = self.began.as_millis().saturating_sub(now.as_millis());
        (ahead > 0).then(|| Self {
            began: now,
            until: Timestamp::from_millis(self.until.as_millis().saturating_sub(ahead)),
        })
    }
}

/// A ban that is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanChange {
    /// The ban.
    pub ban: Ban,
    /// When the same ban began by a clock that ran ahead, if it has been stored so.
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

/// When keys are banned, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanPolicy {
    /// Refusals within one minute without a ban; one more is a ban. Zero: there are no bans.
    pub after: u32,
    /// How long a first ban lasts.
    pub first: Duration,
}

impl Default for BanPolicy {
    fn default() -> Self {
        Self {
            after: 100,
            first: Duration::from_secs(300),
        }
    }
}

impl BanPolicy {
    /// Whether so many refusals within one minute bring a ban.
    pub const fn exceeded(&self, refusals: u32) -> bool {
        self.after > 0 && refusals > self.after
    }

    /// The ban that begins now, given the last one: twice as long if that began within 24 hours, one hour at most
    /// (or a first ban's length, where the operator has made that longer).
    pub fn next(&self, last: Option<Ban>, now: Timestamp) -> Ban {
        let length = match last {
            Some(last) if now < last.began.after(MEMORY) => {
                let before = last
                    .until
                    .as_millis()
                    .saturating_sub(last.began.as_millis());
                let twice =
                    Duration::from_millis(u64::try_from(before).unwrap_or(0).saturating_mul(2));
                twice.min(LONGEST).max(self.first)
            }
            _ => self.first,
        };
        Ban {
            began: now,
            until: now.after(length),
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
            minutes.push((ban.until.as_millis() - ban.began.as_millis()) / 60_000);
            now = ban.until;
            last = Some(ban);
        }
        assert_eq!(minutes, [5, 10, 20, 40, 60, 60]);
        let day_later = last.unwrap().began.after(Duration::from_secs(86_400));
        assert_eq!(
            policy.next(last, day_later).until,
            day_later.after(policy.first)
        );
    }

    #[test]
    fn a_ban_dated_into_the_future_begins_now_with_its_own_length() {
        let at = Timestamp::from_secs;
        let ban = Ban {
            began: at(100),
            until: at(400),
        };
        assert_eq!(ban.moved_to(at(100)), None);
        let moved = Ban {
            began: at(10),
            until: at(310),
        };
        assert_eq!(ban.moved_to(at(10)), Some(moved));
    }

    #[test]
    fn a_ban_begins_with_the_first_refusal_beyond_the_limit_and_never_when_disabled() {
        assert!(!BanPolicy::default().exceeded(100));
        assert!(BanPolicy::default().exceeded(101));
        assert!(
            !BanPolicy {
                after: 0,
                ..BanPolicy::default()
            }
            .exceeded(u32::MAX)
        );
    }
}
