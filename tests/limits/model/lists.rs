//! The model: one key, as lists of what happened to it.

use animal_store::clock::{Day, Timestamp};
use animal_store::limit::{self, Admission, Ban, BanChange, BanPolicy};

use super::{DAY, HOUR, MINUTE};

/// One key, as lists of moments in milliseconds.
#[derive(Default)]
pub(super) struct Model {
    /// Admitted, with the moment that counts for the minute.
    minute: Admissions,
    /// Admitted, with the moment that counts for the day.
    day: Admissions,
    /// Rejections by a window since the server started, the last ban began or the key was last unbanned, whichever was latest: first
    /// those that the node decided alone, then those that Redis decided.
    rejected: [Vec<i64>; 2],
    /// Bans, from and until, since the last unban.
    pub(super) bans: Vec<(i64, i64)>,
    /// The requests that are not stored yet: when, and whether it was admitted.
    pub(super) unstored: Vec<(i64, bool)>,
    /// The requests that are stored.
    pub(super) stored: Vec<(i64, bool)>,
}

/// What was admitted in the windows of one length.
#[derive(Default)]
struct Admissions {
    /// The latest moment so far. A request before it counts as if it were at that moment.
    latest: Option<i64>,
    admitted: Vec<i64>,
}

impl Admissions {
    /// Moves to the moment at which a request counts. The latest one may be so far ahead that the clock must have been wrong: then
    /// what happened in its window is moved to now. Returns the moments before and after such a move.
    fn enter(&mut self, length: i64, now: i64) -> Option<(i64, i64)> {
        let latest = self.latest.map_or(now, |latest| latest.max(now));
        let is_possible = latest.div_euclid(length) <= now.div_euclid(length) + 1;
        self.latest = Some(if is_possible { latest } else { now });
        if is_possible {
            return None;
        }
        self.admitted
            .retain(|moment| is_same(length, *moment, latest));
        self.admitted.fill(now);
        Some((latest, now))
    }

    fn moment(&self) -> i64 {
        self.latest.expect("a moment")
    }
}

/// Who decides: the node alone, or Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decider {
    Node,
    Redis,
}

/// What the model expects of a request.
pub(super) struct Expected {
    pub(super) admission: Admission,
    /// The headers that may be shown.
    pub(super) shown: Vec<(u32, u32, i64)>,
    /// The ban that was corrected, for the store.
    pub(super) corrected: Option<BanChange>,
}

fn is_same(period: i64, one: i64, other: i64) -> bool {
    one.div_euclid(period) == other.div_euclid(period)
}

pub(super) fn end_of(period: i64, moment: i64) -> i64 {
    (moment.div_euclid(period) + 1) * period
}

fn count_in(moments: &[i64], period: i64, now: i64) -> u32 {
    let within = moments
        .iter()
        .filter(|moment| is_same(period, **moment, now));
    u32::try_from(within.count()).expect("a count")
}

pub(super) fn ban(from: i64, until: i64) -> Ban {
    let [started_at, until] = [from, until].map(Timestamp::from_millis);
    Ban { started_at, until }
}

impl Model {
    /// Limit, requests left and end of the minute and of the day.
    fn windows(&self, limits: (u32, u32)) -> [(u32, u32, i64); 2] {
        let window = |limit: u32, length, admissions: &Admissions| {
            let used = count_in(&admissions.admitted, length, admissions.moment());
            let end = end_of(length, admissions.moment());
            (limit, limit.saturating_sub(used), end)
        };
        [
            window(limits.0, MINUTE, &self.minute),
            window(limits.1, DAY, &self.day),
        ]
    }

    pub(super) fn request(
        &mut self,
        limits: (u32, u32),
        policy: BanPolicy,
        now: i64,
        decider: Decider,
    ) -> Expected {
        if let Some((from, to)) = self.minute.enter(MINUTE, now) {
            for rejected in &mut self.rejected {
                rejected.retain(|moment| is_same(MINUTE, *moment, from));
                rejected.fill(to);
            }
        }
        self.day.enter(DAY, now);
        // A ban from the future begins now.
        let mut corrected = None;
        if let Some((from, until)) = self.bans.last_mut().filter(|(from, _)| now < *from) {
            let replaces = Some(Timestamp::from_millis(*from));
            (*from, *until) = (now, now + (*until - *from));
            let ban = ban(*from, *until);
            corrected = Some(BanChange { ban, replaces });
        }
        let admission = self.admission(limits, policy, now, decider);
        self.unstored
            .push((self.day.moment(), admission == Admission::Admitted));

        let mut windows = self.windows(limits).to_vec();
        if let Some((_, until)) = self.bans.last().filter(|(_, until)| now < *until) {
            windows.push((limits.0, 0, *until));
        }
        let fewest = windows.iter().map(|window| window.1).min();
        windows.retain(|window| Some(window.1) == fewest);
        let latest = windows.iter().map(|window| window.2).max();
        windows.retain(|window| Some(window.2) == latest);
        Expected {
            admission,
            shown: windows,
            corrected,
        }
    }

    fn admission(
        &mut self,
        limits: (u32, u32),
        policy: BanPolicy,
        now: i64,
        decider: Decider,
    ) -> Admission {
        let [minute, day] = self.windows(limits);
        let exhausted = [minute, day].into_iter().filter(|window| window.1 == 0);
        let ends = exhausted.map(|window| window.2).max();
        let later = |until: i64| Timestamp::from_millis(ends.map_or(until, |end| end.max(until)));
        if let Some((_, until)) = self.bans.last().filter(|(_, until)| now < *until) {
            let until = later(*until);
            return Admission::Banned { until, new: None };
        }
        let Some(until) = ends else {
            self.minute.admitted.push(self.minute.moment());
            self.day.admitted.push(self.day.moment());
            return Admission::Admitted;
        };
        let moment = self.minute.moment();
        let rejected = &mut self.rejected[decider as usize];
        rejected.push(moment);
        if policy.max_rejections == 0 || count_in(rejected, MINUTE, moment) <= policy.max_rejections
        {
            // If both end at midnight, it is the minute that the headers show.
            let by = match minute.1 == 0 && minute.2 == until {
                true => limit::Period::Minute,
                false => limit::Period::Day,
            };
            let until = Timestamp::from_millis(until);
            return Admission::RateLimited { by, until };
        }
        let first = i64::try_from(policy.first_duration.as_millis()).expect("a duration");
        let length = match self.bans.last() {
            Some((from, until)) if now - from < DAY => (2 * (until - from)).min(HOUR).max(first),
            _ => first,
        };
        self.rejected = Default::default();
        self.bans.push((now, now + length));
        let new = Some(ban(now, now + length));
        let until = later(now + length);
        Admission::Banned { until, new }
    }

    pub(super) fn unban(&mut self) {
        self.bans.clear();
        self.rejected = Default::default();
    }

    /// Redis has lost its data. The node sends counts and bans again, but not the rejections.
    pub(super) fn lose_redis(&mut self) {
        self.rejected[Decider::Redis as usize].clear();
    }

    /// Restarts the server. If the clock has stepped back, one without Redis stays in the day that was reached.
    pub(super) fn restart(&mut self, now: i64, has_redis: bool) {
        assert!(self.unstored.is_empty());
        let is_on = |day: i64| move |(moment, _): &&(i64, bool)| is_same(DAY, *moment, day);
        let next = (!has_redis).then_some(now + DAY);
        let reached = next
            .into_iter()
            .chain([now])
            .find(|day| self.stored.iter().any(|request| is_on(*day)(&request)));
        let latest = reached.map(|day| end_of(DAY, day) - DAY);
        let counted = self.stored.iter().filter(|(_, admitted)| *admitted);
        self.day = Admissions {
            latest,
            admitted: counted
                .filter(is_on(reached.unwrap_or(now)))
                .map(|(moment, _)| *moment)
                .collect(),
        };
        self.minute = Admissions {
            latest,
            admitted: Vec::new(),
        };
        self.rejected = Default::default();
    }

    /// The latest moment that a request counted at.
    pub(super) fn latest(&self) -> Option<i64> {
        self.minute.latest.max(self.day.latest)
    }

    /// The day that was reached before the server started, if there were requests of any kind, and how many of them were admitted.
    pub(super) fn remembered(&self) -> Option<(Day, u32)> {
        let day = Timestamp::from_millis(self.day.latest?).day();
        Some((day, u32::try_from(self.day.admitted.len()).ok()?))
    }

    /// Requests and rejections on a day that are not stored yet.
    pub(super) fn unstored_on(&self, day: Day) -> (usize, usize) {
        let that_day = self
            .unstored
            .iter()
            .filter(|(moment, _)| is_same(DAY, *moment, day.start().as_millis()));
        let admitted = that_day.clone().filter(|(_, admitted)| *admitted).count();
        (admitted, that_day.count() - admitted)
    }
}
