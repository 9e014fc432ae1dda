//! A key in the limiter and in the model, and whether both decide the same.

use std::sync::atomic::{AtomicI64, Ordering};

use animal_store::clock::Timestamp;
use animal_store::key::KeyId;
use animal_store::limit::{Admission, BanPolicy, DayUsage, Meter};
use animal_store::plan::Limits;
use proptest::prelude::*;

use super::lists::{Expected, Model, ban};
use super::tested::Tested;

/// One key: the limiter's meter and the model, side by side.
pub(super) struct Pair {
    pub(super) id: KeyId,
    pub(super) meter: Meter,
    pub(super) model: Model,
    pub(super) limits: (u32, u32),
    /// When an operator last unbanned it, by the date in the store.
    pub(super) unbanned: Option<i64>,
}

impl Pair {
    pub(super) fn request(
        &mut self,
        limiter: &Tested,
        policy: BanPolicy,
        now: i64,
    ) -> Result<Admission, TestCaseError> {
        let limits = Limits::new(self.limits.0, self.limits.1).expect("limits");
        let is_first = self.model.unstored.is_empty();
        let (decision, decider) = limiter.decide(self.id, &self.meter, limits, now);
        let Expected {
            admission,
            shown,
            corrected,
        } = self.model.request(self.limits, policy, now, decider);
        prop_assert_eq!(decision.admission, admission, "decided by {:?}", decider);
        prop_assert_eq!(decision.unstored_ban, corrected);
        let quota = (
            decision.quota.limit,
            decision.quota.remaining,
            decision.quota.reset.as_millis(),
        );
        prop_assert!(shown.contains(&quota), "{:?} is not in {:?}", quota, shown);
        prop_assert_eq!(decision.first_unstored, is_first);
        if limiter.is_late(decider) {
            // It may have counted what it did not confirm: a key that is new to it starts from zero.
            self.lose_redis();
        }
        Ok(admission)
    }

    /// Makes Redis lose all data of the key.
    pub(super) fn lose_redis(&mut self) {
        self.id = new_id();
        self.model.lose_redis();
    }

    /// An operator unbans the key. The store dates it no earlier than the ban, and later than the previous unban.
    pub(super) fn unban(&mut self, now: i64) {
        let ban = self.model.bans.last().map(|(from, _)| *from);
        let after_last = self.unbanned.map(|last| last + 1);
        let dated = now.max(ban.unwrap_or(now)).max(after_last.unwrap_or(now));
        self.unbanned = Some(dated);
        self.meter
            .apply_bans(None, Some(Timestamp::from_millis(dated)));
        self.model.unban();
    }

    pub(super) fn store(&mut self) -> Result<(), TestCaseError> {
        let usage: Vec<DayUsage> = self.meter.take_unstored();
        let mut stored = 0;
        for day in usage.iter().map(|on| on.day) {
            let same_day = usage.iter().filter(|on| on.day == day);
            let sums = same_day.fold((0, 0), |sums, on| {
                (sums.0 + on.requests as usize, sums.1 + on.rejected as usize)
            });
            prop_assert_eq!(sums, self.model.unstored_on(day));
        }
        for on in &usage {
            stored += on.requests as usize + on.rejected as usize;
        }
        prop_assert_eq!(stored, self.model.unstored.len());
        self.model.stored.append(&mut self.model.unstored);
        Ok(())
    }

    pub(super) fn restart(&mut self, now: i64, has_redis: bool) -> Result<(), TestCaseError> {
        self.store()?;
        self.model.restart(now, has_redis);
        // All that was only in memory is lost, in the server and in Redis.
        self.meter = Meter::default();
        self.id = new_id();
        let ban = self
            .model
            .bans
            .last()
            .map(|(from, until)| ban(*from, *until));
        self.meter
            .apply_bans(ban, self.unbanned.map(Timestamp::from_millis));
        if let Some((day, admitted)) = self.model.remembered() {
            self.meter.restore_usage(day, admitted);
        }
        Ok(())
    }
}

/// An ID that no other key of this run has.
pub(super) fn new_id() -> KeyId {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    KeyId(NEXT.fetch_add(1, Ordering::Relaxed))
}
