//! The limiter against a model of it that is nothing but lists of what happened.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use animal_store::clock::{Clock, Day, Timestamp};
use animal_store::key::KeyId;
use animal_store::limit::redis::{Health, Redis, RedisUrl};
use animal_store::limit::{Ban, BanPolicy, DayUse, Decision, Limiter, Meter, Verdict};
use animal_store::plan::Limits;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use crate::secs;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const KEYS: usize = 3;

/// Decisions that one run makes at least.
const DECISIONS: usize = 100_000;

/// What happens, one thing after another.
#[derive(Clone, Debug)]
enum Step {
    /// A key asks so many times.
    Ask { key: usize, times: usize },
    /// Time goes forward, or steps back.
    Move { by: i64 },
    /// Time goes to where this period ends, or a millisecond beside it.
    ToTheEndOf { period: i64, beside: i64 },
    /// An operator gives a key other limits.
    Limit { key: usize, limits: (u32, u32) },
    /// An operator pardons a key.
    Pardon { key: usize },
    /// What a key used is stored, or cannot be.
    Store { key: usize, works: bool },
    /// The server starts again with what was stored.
    Restart,
}

fn limits() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![
        (1..8_u32, 1..30_u32),
        (1..30_u32, 1..30_u32),
        Just((1_000, 1_000))
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS;
    let span = || prop_oneof![0..SECOND, 0..2 * MINUTE, 0..HOUR, 0..30 * HOUR];
    let period = prop_oneof![3 => Just(MINUTE), 1 => Just(DAY)];
    prop_oneof![
        20 => (key.clone(), 1..25_usize).prop_map(|(key, times)| Step::Ask { key, times }),
        8 => span().prop_map(|by| Step::Move { by }),
        2 => span().prop_map(|by| Step::Move { by: -by }),
        6 => (period, -1..=1_i64).prop_map(|(period, beside)| Step::ToTheEndOf { period, beside }),
        2 => (key.clone(), limits()).prop_map(|(key, limits)| Step::Limit { key, limits }),
        1 => key.clone().prop_map(|key| Step::Pardon { key }),
        2 => (key, any::<bool>()).prop_map(|(key, works)| Step::Store { key, works }),
        1 => Just(Step::Restart),
    ]
}

fn policy() -> impl Strategy<Value = BanPolicy> {
    let first = prop_oneof![Just(300), Just(1), Just(60), Just(7_200)].prop_map(secs);
    (0..12_u32, first).prop_map(|(after, first)| BanPolicy { after, first })
}

/// One key, as lists of moments in milliseconds.
#[derive(Default)]
struct Model {
    /// The latest moment seen. A request that comes earlier counts as if it came then.
    latest: Option<i64>,
    /// Admitted since the server started.
    admitted: Vec<i64>,
    /// Admitted before the server started, on the day when it did.
    remembered: Vec<i64>,
    /// Refused by a window since the server started, the last ban began, or the pardon.
    refused: Vec<i64>,
    /// Bans, from and until, since the last pardon.
    bans: Vec<(i64, i64)>,
    /// What the store has not been told: when, and whether it was admitted.
    untold: Vec<(i64, bool)>,
    /// What it has been told.
    told: Vec<(i64, bool)>,
}

/// What the model expects of a request: the verdict, and the headers that may be shown.
type Expected = (Verdict, Vec<(u32, u32, i64)>);

fn is_same(period: i64, one: i64, other: i64) -> bool {
    one.div_euclid(period) == other.div_euclid(period)
}

fn end_of(period: i64, moment: i64) -> i64 {
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

    fn ask(&mut self, limits: (u32, u32), policy: BanPolicy, now: i64) -> Expected {
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

    fn pardon(&mut self, now: i64) {
        // A clock that stepped back can put the pardon before the ban; then it is for an earlier one.
        if self.bans.last().is_some_and(|(from, _)| *from <= now) {
            self.bans.clear();
            self.refused.clear();
        }
    }

    fn restart(&mut self, now: i64) {
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
    fn untold_on(&self, day: Day) -> (usize, usize) {
        let that_day = self
            .untold
            .iter()
            .filter(|(moment, _)| is_same(DAY, *moment, day.start().as_millis()));
        let admitted = that_day.clone().filter(|(_, admitted)| *admitted).count();
        (admitted, that_day.count() - admitted)
    }
}

/// How often each verdict was met: a run that never bans would prove nothing about bans.
#[derive(Debug, Default)]
struct Met {
    admitted: usize,
    limited: usize,
    banned: usize,
    first_bans: usize,
    further_bans: usize,
}

impl Met {
    fn count(&mut self, verdict: Verdict, policy: BanPolicy) {
        match verdict {
            Verdict::Admitted => self.admitted += 1,
            Verdict::RateLimited { .. } => self.limited += 1,
            Verdict::Banned { new: None, .. } => self.banned += 1,
            Verdict::Banned { new: Some(ban), .. } => {
                match ban.until == ban.began.after(policy.first) {
                    true => self.first_bans += 1,
                    false => self.further_bans += 1,
                }
            }
        }
    }

    fn all(&self) -> usize {
        self.admitted + self.limited + self.banned + self.first_bans + self.further_bans
    }
}

/// The limiter that is tested: the one in memory or, where `ANIMAL_STORE_TEST_REDIS` names one, that in Redis.
struct Tested {
    limiter: Limiter,
    clock: Clock,
    runtime: Runtime,
    /// Where the limiter looks after its connection.
    tasks: LocalSet,
    redis: Option<Arc<Health>>,
}

impl Tested {
    fn new(policy: BanPolicy) -> Self {
        let clock = Clock::manual(Timestamp::default());
        let health = Arc::default();
        static REDIS: OnceLock<Option<RedisUrl>> = OnceLock::new();
        let url = REDIS.get_or_init(harness::redis_url).clone();
        let redis = url.is_some().then(|| Arc::clone(&health));
        let limiter = match url {
            Some(url) => Limiter::Redis(Redis::new(url, policy, clock.clone(), health)),
            None => Limiter::Memory(policy),
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let (runtime, tasks) = (runtime.expect("a runtime"), LocalSet::new());
        tasks.block_on(&runtime, limiter.begin());
        Self {
            limiter,
            clock,
            runtime,
            tasks,
            redis,
        }
    }

    /// A case in which Redis was late proves nothing about it, and is replaced by another.
    fn decide(
        &self,
        key: KeyId,
        meter: &Meter,
        limits: Limits,
        now: i64,
    ) -> Result<Decision, TestCaseError> {
        let now = Timestamp::from_millis(now);
        self.clock.set(now);
        let decided = self.limiter.decide(key, meter, limits, now);
        let decision = self.tasks.block_on(&self.runtime, decided);
        let is_well = self.redis.as_ref().is_none_or(|redis| redis.is_well());
        match is_well {
            true => Ok(decision),
            false => Err(TestCaseError::reject("Redis was late")),
        }
    }
}

/// A number that no other key of this run has.
fn new_number() -> KeyId {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    KeyId(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One key: the limiter's meter and the model, side by side.
struct Pair {
    id: KeyId,
    meter: Meter,
    model: Model,
    limits: (u32, u32),
}

impl Pair {
    fn ask(
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

    fn store(&mut self, works: bool) -> Result<(), TestCaseError> {
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

    fn restart(&mut self, now: i64) -> Result<(), TestCaseError> {
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

fn run(
    start: i64,
    policy: BanPolicy,
    all: Vec<(u32, u32)>,
    steps: Vec<Step>,
    met: &mut Met,
) -> Result<(), TestCaseError> {
    let limiter = Tested::new(policy);
    let pair = |limits| Pair {
        id: new_number(),
        meter: Meter::default(),
        model: Model::default(),
        limits,
    };
    let mut keys: Vec<Pair> = all.into_iter().map(pair).collect();
    let mut now = start;
    // An empty Redis goes by its own clock, whatever a node knows of later windows: one node whose clock runs ahead must
    // not shift the windows of all. So there the clock does not step back behind a start.
    let mut begun = i64::MIN;
    let mut last_pardon = i64::MIN;
    for step in steps {
        match step {
            Step::Ask { key, times } => {
                for _ in 0..times {
                    met.count(keys[key].ask(&limiter, policy, now)?, policy);
                }
            }
            Step::Move { by } => now = (now + by).max(begun),
            Step::ToTheEndOf { period, beside } => now = (end_of(period, now) + beside).max(begun),
            Step::Limit { key, limits } => keys[key].limits = limits,
            Step::Pardon { key } => {
                // The store dates each pardon after the one before; Redis knows them apart by that.
                if limiter.redis.is_some() {
                    now = now.max(last_pardon + 1);
                    last_pardon = now;
                }
                keys[key]
                    .meter
                    .obey(None, Some(Timestamp::from_millis(now)));
                keys[key].model.pardon(now);
            }
            Step::Store { key, works } => keys[key].store(works)?,
            Step::Restart => {
                keys.iter_mut().try_for_each(|key| key.restart(now))?;
                if limiter.redis.is_some() {
                    begun = now;
                }
            }
        }
    }
    keys.iter_mut().try_for_each(|key| key.store(true))
}

#[test]
fn the_limiter_decides_as_the_model_does_whatever_time_and_operators_do() {
    let config = Config {
        cases: Config::default().cases.max(256),
        failure_persistence: None,
        ..Config::default()
    };
    // A few days around midnight, 16 November 2026.
    let start = 1_794_787_200_000 - DAY..1_794_787_200_000 + DAY;
    let limits = prop::collection::vec(limits(), KEYS);
    let steps = prop::collection::vec(step(), 40..140);
    let met = RefCell::new(Met::default());
    TestRunner::new(config)
        .run(
            &(start, policy(), limits, steps),
            |(start, policy, limits, steps)| {
                run(start, policy, limits, steps, &mut met.borrow_mut())
            },
        )
        .unwrap_or_else(|failure| panic!("{failure}"));
    let met = met.into_inner();
    assert!(met.all() >= DECISIONS, "{met:?}");
    let rarest = met
        .first_bans
        .min(met.further_bans)
        .min(met.limited)
        .min(met.banned);
    assert!(rarest >= 100 && met.admitted >= 10_000, "{met:?}");
    println!("{met:?}");
}
