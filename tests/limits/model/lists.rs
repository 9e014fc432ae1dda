//! The model: one key, as lists of what happened to it.

use animal_store::clock::{Day, Timestamp};
use animal_store::limit::{Ban, BanPolicy, Verdict};

use super::{DAY, HOUR, MINUTE};

/// One key, as lists of moments in milliseconds.
#[derive(Default)]
pub(super) struct Model {
    /// The latest moment seen. A request that comes earlier counts as if it came then.
    pub(super) latest: Option<i64>,
    /// Admitted since the server started.
    admitted: Vec<i64>,
    /// Admitted before the server started, on the day when it did.
    pub(super) remembered: Vec<i64>,
    /// Refused by a window since the server started, the last ban began, or the pardon.
    refused: Vec<i64>,
    /// Bans, from and until, since the last pardon.
    pub(super) bans: Vec<(i64, i64)>,
    /// What the store has not been told: when, and whether it was admitted.
    pub(super) untold: Vec<(i64, bool)>,
    /// What it has been told.
    pub(super) told: Vec<(i64, bool)>,
}

/// What the model expects of a request: the verdict, and the headers that may be shown.
pub(super) type Expected = (Verdict, Vec<(u32, u32, i64)>);

fn is_same(period: i64, one: i64, other: i64) -> bool {
    one.div_euclid(period) == other.div_euclid(period)
}

pub(super) fn end_of(period: i64, moment: i64) -> i64 {
    (moment.div_euclid(period) + 1) * period
}

fn how_many(moments: &[i64], period: i64, now: i64) -> u32 {
    let within = moments
        .iter()
        .filter(|moment| is_same(period, **moment, now));
    u32::try_from(within.count()).expect("a count")
}

impl Model {
    /// Limit, requests left and end of the minute and of the day.
    fn windows(&self, limits: (u32, u32), moment: i64) -> Vec<(u32, u32, i64)> {
        let in_minute = how_many(&self.admitted, MINUTE, moment);
        let in_day =
            how_many(&self.admitted, DAY, moment) + how_many(&self.remembered, DAY, moment);
        vec![
            (
                limits.0,
                limits.0.saturating_sub(in_minute),
                end_of(MINUTE, moment),
            ),
            (
                limits.1,
                limits.1.saturating_sub(in_day),
                end_of(DAY, moment),
            ),
        ]
    }

    pub(super) fn ask(&mut self, limits: (u32, u32), policy: BanPolicy, now: i64) -> Expected {
        let moment = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(moment);
        let verdict = self.verdict(limits, policy, now, moment);
        self.untold.push((moment, verdict == Verdict::Admitted));

        let mut windows = self.windows(limits, moment);
        if let Verdict::Banned { until, .. } = verdict {
            windows.push((limits.0, 0, until.as_millis()));
        }
        let fewest = windows.iter().map(|window| window.1).min();
        windows.retain(|window| Some(window.1) == fewest);
        let latest = windows.iter().map(|window| window.2).max();
        windows.retain(|window| Some(window.2) == latest);
        (verdict, windows)
    }

    fn verdict(&mut self, limits: (u32, u32), policy: BanPolicy, now: i64, moment: i64) -> Verdict {
        if let Some((_, until)) = self.bans.last().filter(|(_, until)| now < *until) {
            let until = Timestamp::from_millis(*until);
            return Verdict::Banned { until, new: None };
        }
        let windows = self.windows(limits, moment);
        let exhausted = windows.iter().filter(|window| window.1 == 0);
        let Some(until) = exhausted.map(|window| window.2).max() else {
            self.admitted.push(moment);
            return Verdict::Admitted;
        };
        self.refused.push(moment);
        if policy.after == 0 || how_many(&self.refused, MINUTE, moment) <= policy.after {
            let until = Timestamp::from_millis(until);
            return Verdict::RateLimited { until };
        }
        let first = i64::try_from(policy.first.as_millis()).expect("a span");
        let length = match self.bans.last() {
            Some((from, until)) if now - from < DAY => (2 * (until - from)).min(HOUR).max(first),
            _ => first,
        };
        self.refused.clear();
        self.bans.push((now, now + length));
        let (began, until) = (
            Timestamp::from_millis(now),
            Timestamp::from_millis(now + length),
        );
        let new = Some(Ban { began, until });
        Verdict::Banned { until, new }
    }

    pub(super) fn pardon(&mut self, now: i64) {
        // A clock that stepped back can put the pardon before the ban; then it is for an earlier one.
        if self.bans.last().is_some_and(|(from, _)| *from <= now) {
            self.bans.clear();
            self.refused.clear();
        }
    }

    pub(super) fn restart(&mut self, now: i64) {
        assert!(self.untold.is_empty());
        self.admitted.clear();
        self.refused.clear();
        let today = self
            .told
            .iter()
            .filter(|(moment, _)| is_same(DAY, *moment, now));
        let known = today.clone().next().is_some();
        self.latest = known.then_some(end_of(DAY, now) - DAY);
        let admitted = today.filter(|(_, admitted)| *admitted);
        self.remembered = admitted.map(|(moment, _)| *moment).collect();
    }

    /// Requests and refusals on a day that the store has not been told of.
    pub(super) fn untold_on(&self, day: Day) -> (usize, usize) {
        let that_day = self
            .untold
            .iter()
            .filter(|(moment, _)| is_same(DAY, *moment, day.start().as_millis()));
        let admitted = that_day.clone().filter(|(_, admitted)| *admitted).count();
        (admitted, that_day.count() - admitted)
    }
}
