//! A key that both are asked about, and whether they agree.

use std::sync::atomic::{AtomicI64, Ordering};

use animal_store::clock::Timestamp;
use animal_store::key::KeyId;
use animal_store::limit::{Ban, BanPolicy, DayUse, Meter, Verdict};
use animal_store::plan::Limits;
use proptest::prelude::*;

use super::lists::Model;
use super::tested::Tested;

/// One key: the limiter's meter and the model, side by side.
pub(super) struct Pair {
    pub(super) id: KeyId,
    pub(super) meter: Meter,
    pub(super) model: Model,
    pub(super) limits: (u32, u32),
}

impl Pair {
    pub(super) fn ask(
        &mut self,
        limiter: &Tested,
        policy: BanPolicy,
        now: i64,
    ) -> Result<Verdict, TestCaseError> {
        let limits = Limits::new(self.limits.0, self.limits.1).expect("limits");
        let is_first = self.model.untold.is_empty();
        let decision = limiter.decide(self.id, &self.meter, limits, now)?;
        let (verdict, shown) = self.model.ask(self.limits, policy, now);
        prop_assert_eq!(decision.verdict, verdict);
        let rate = (
            decision.rate.limit,
            decision.rate.remaining,
            decision.rate.reset.as_millis(),
        );
        prop_assert!(shown.contains(&rate), "{:?} is not in {:?}", rate, shown);
        prop_assert_eq!(decision.first_unread, is_first);
        Ok(verdict)
    }

    pub(super) fn store(&mut self, works: bool) -> Result<(), TestCaseError> {
        let uses: Vec<DayUse> = self.meter.read_out();
        let mut told = 0;
        for day in uses.iter().map(|on| on.day) {
            let same_day = uses.iter().filter(|on| on.day == day);
            let sums = same_day.fold((0, 0), |sums, on| {
                (sums.0 + on.requests as usize, sums.1 + on.refused as usize)
            });
            prop_assert_eq!(sums, self.model.untold_on(day));
        }
        for on in &uses {
            told += on.requests as usize + on.refused as usize;
        }
        prop_assert_eq!(told, self.model.untold.len());
        if works {
            self.model.told.append(&mut self.model.untold);
        } else {
            self.meter.put_back(uses);
        }
        Ok(())
    }

    pub(super) fn restart(&mut self, now: i64) -> Result<(), TestCaseError> {
        self.store(true)?;
        self.model.restart(now);
        // All that was only in memory is forgotten, the server's own and Redis'.
        self.meter = Meter::default();
        self.id = new_number();
        let ban = self.model.bans.last().map(|(from, until)| Ban {
            began: Timestamp::from_millis(*from),
            until: Timestamp::from_millis(*until),
        });
        self.meter.obey(ban, None);
        if self.model.latest.is_some() {
            let today = u32::try_from(self.model.remembered.len()).expect("a count");
            self.meter
                .remember(Timestamp::from_millis(now).day(), today);
        }
        Ok(())
    }
}

/// A number that no other key of this run has.
pub(super) fn new_number() -> KeyId {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    KeyId(NEXT.fetch_add(1, Ordering::Relaxed))
}
