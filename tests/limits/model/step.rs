//! The steps of a run, and how often each occurs.

use animal_store::limit::BanPolicy;
use proptest::prelude::*;

use super::{DAY, HOUR, KEYS, MINUTE, SECOND};
use crate::secs;

/// One step of a run.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A key sends this many requests.
    Request { key: usize, times: usize },
    /// The clock advances, or steps back.
    Move { by: i64 },
    /// The clock is set ahead or back by a lot.
    Jump { by: i64 },
    /// The last jump is undone.
    Correct,
    /// The clock moves to the end of this period, or a millisecond before or after it.
    EndOf { period: i64, offset: i64 },
    /// An operator changes the limits of a key.
    Limit { key: usize, limits: (u32, u32) },
    /// An operator unbans a key.
    Unban { key: usize },
    /// The usage of a key is stored.
    Store { key: usize },
    /// The server starts again with what was stored.
    Restart,
    /// Redis, if it is used, becomes unavailable.
    RedisFails,
    /// It is available again, with its data or empty.
    RedisReturns { is_empty: bool },
}

pub(super) fn limits() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![
        (1..8_u32, 1..30_u32),
        (1..30_u32, 1..30_u32),
        Just((1_000, 1_000))
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS;
    let span = || prop_oneof![0..SECOND, 0..2 * MINUTE, 0..HOUR, 0..30 * HOUR];
    let jump = prop_oneof![Just(HOUR), Just(DAY), Just(400 * DAY)];
    let period = prop_oneof![3 => Just(MINUTE), 1 => Just(DAY)];
    prop_oneof![
        20 => (key.clone(), 1..25_usize).prop_map(|(key, times)| Step::Request { key, times }),
        8 => span().prop_map(|by| Step::Move { by }),
        2 => span().prop_map(|by| Step::Move { by: -by }),
        6 => (period, -1..=1_i64).prop_map(|(period, offset)| Step::EndOf { period, offset }),
        2 => (key.clone(), limits()).prop_map(|(key, limits)| Step::Limit { key, limits }),
        1 => key.clone().prop_map(|key| Step::Unban { key }),
        1 => (jump, any::<bool>()).prop_map(|(by, back)| Step::Jump { by: if back { -by } else { by } }),
        1 => Just(Step::Correct),
        2 => key.prop_map(|key| Step::Store { key }),
        1 => Just(Step::Restart),
        1 => Just(Step::RedisFails),
        3 => any::<bool>().prop_map(|is_empty| Step::RedisReturns { is_empty }),
    ]
}

pub(super) fn policy() -> impl Strategy<Value = BanPolicy> {
    let first = prop_oneof![Just(300), Just(1), Just(60), Just(7_200)].prop_map(secs);
    (0..12_u32, first).prop_map(|(max_rejections, first_duration)| BanPolicy {
        max_rejections,
        first_duration,
    })
}
