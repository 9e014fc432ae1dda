//! The limiter compared with a model, which only keeps lists of what happened.

mod decision_counts;
mod lists;
mod pair;
mod step;
mod tested;

use std::cell::RefCell;

use animal_store::limit::{BanPolicy, Meter};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use decision_counts::DecisionCounts;
use lists::{Model, end_of};
use pair::{Pair, new_id};
use step::{Step, limits, policy, step};
use tested::Tested;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const KEYS: usize = 3;

/// The minimum number of decisions in a run.
const DECISIONS: usize = 100_000;

fn run(
    start: i64,
    policy: BanPolicy,
    all: Vec<(u32, u32)>,
    steps: Vec<Step>,
    counts: &mut DecisionCounts,
) -> Result<(), TestCaseError> {
    let limiter = Tested::new(policy);
    let pair = |limits| Pair {
        id: new_id(),
        meter: Meter::default(),
        model: Model::default(),
        limits,
        unbanned: None,
    };
    let mut keys: Vec<Pair> = all.into_iter().map(pair).collect();
    let mut now = start;
    let mut jumped = 0;
    // Redis uses its own clock, whatever a node knows of later windows: one node whose clock runs ahead must not shift
    // the windows of all. So, in this test, the clock does not step back to before a moment that only the node has
    // seen.
    let mut begun = i64::MIN;
    for step in steps {
        match step {
            Step::Request { key, times } => {
                for _ in 0..times {
                    counts.count(keys[key].request(&limiter, policy, now)?, policy);
                }
            }
            Step::Move { by } => now = (now + by).max(begun),
            Step::Jump { by } => (now, jumped) = ((now + by).max(begun), by),
            Step::Correct => (now, jumped) = ((now - jumped).max(begun), 0),
            Step::EndOf { period, offset } => now = (end_of(period, now) + offset).max(begun),
            Step::Limit { key, limits } => keys[key].limits = limits,
            Step::Unban { key } => keys[key].unban(now),
            Step::Store { key } => keys[key].store()?,
            Step::Restart => {
                let has_redis = limiter.has_redis();
                keys.iter_mut()
                    .try_for_each(|key| key.restart(now, has_redis))?;
                if has_redis {
                    begun = now;
                }
            }
            Step::RedisFails => limiter.redis_fails(),
            Step::RedisReturns { is_empty } => {
                limiter.redis_returns();
                if is_empty {
                    keys.iter_mut().for_each(Pair::lose_redis);
                }
            }
        }
        if limiter.may_differ() {
            let latest = keys.iter().filter_map(|key| key.model.latest()).max();
            now = now.max(latest.unwrap_or(now));
            begun = now;
        }
    }
    keys.iter_mut().try_for_each(|key| key.store())
}

#[test]
fn the_limiter_decides_as_the_model_does_whatever_clocks_and_operators_do() {
    let config = Config {
        cases: Config::default().cases.max(256),
        failure_persistence: None,
        // With Redis, each `RedisReturns` takes a quarter of a second.
        max_shrink_iters: if harness::redis_url().is_some() {
            64
        } else {
            4_096
        },
        ..Config::default()
    };
    // A few days around midnight, 16 November 2026.
    let start = 1_794_787_200_000 - DAY..1_794_787_200_000 + DAY;
    let limits = prop::collection::vec(limits(), KEYS);
    let steps = prop::collection::vec(step(), 40..140);
    let counts = RefCell::new(DecisionCounts::default());
    TestRunner::new(config)
        .run(
            &(start, policy(), limits, steps),
            |(start, policy, limits, steps)| {
                run(start, policy, limits, steps, &mut counts.borrow_mut())
            },
        )
        .unwrap_or_else(|failure| panic!("{failure}"));
    let counts = counts.into_inner();
    assert!(counts.all() >= DECISIONS, "{counts:?}");
    let rarest = counts
        .first_bans
        .min(counts.further_bans)
        .min(counts.limited)
        .min(counts.banned);
    assert!(rarest >= 100 && counts.admitted >= 10_000, "{counts:?}");
    println!("{counts:?}");
}
