//! Checks whether the server can serve, and records the results in the readiness.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::super::shared::Shared;
use crate::health::{Check, CheckState};

/// The interval of the checks. With [`STORE_TIMEOUT`] an outage of the store is detected within a second.
const INTERVAL: Duration = Duration::from_millis(400);

/// Timeout after which the check of the store has failed. The next round waits until the store has responded, but
/// that late response does not count.
const STORE_TIMEOUT: Duration = Duration::from_millis(500);

/// The maximum age of the keys: how soon a change of a key takes effect on every node.
const MAX_KEYS_AGE: Duration = Duration::from_secs(5);

/// The offset of this machine's clock from the database's, in milliseconds, above which the clock is degraded.
const DEGRADED_OFFSET: u64 = 1_000;

/// The offset in milliseconds up to which the server is still ready: beyond it the machine needs attention, although the database's
/// clock is used even then.
const MAX_OFFSET: u64 = 60_000;

/// Runs all checks at their interval.
pub(super) async fn run(shared: &Shared) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        run_once(shared).await;
    }
}

/// Runs all checks. A failed check is a result, not an error.
pub(super) async fn run_once(shared: &Shared) {
    let readiness = &shared.readiness;
    if let Some(redis) = &shared.redis {
        // Without it this node uses its own counters: degraded, but ready.
        let state = match redis.is_healthy() {
            true => CheckState::Ready,
            false => CheckState::Degraded("this node enforces limits without Redis".into()),
        };
        readiness.set(Check::Redis, state);
    }
    if shared.store.is_shared() {
        let state = match shared.clock.ahead().unsigned_abs() {
            off if off > MAX_OFFSET => CheckState::Failed(
                "the clock differs from the database's by more than a minute".into(),
            ),
            // The database's clock is used instead, so stored times are right.
            off if off > DEGRADED_OFFSET => CheckState::Degraded(
                "the clock differs from the database's by more than a second".into(),
            ),
            _ => CheckState::Ready,
        };
        readiness.set(Check::Clock, state);
    }
    let mut reading = pin!(shared.store.ready());
    let done = tokio::time::timeout(STORE_TIMEOUT, reading.as_mut()).await;
    let state = match &done {
        Ok(Ok(())) => CheckState::Ready,
        Ok(Err(_)) => CheckState::Failed("it cannot be read".into()),
        Err(_) => CheckState::Failed("no response in time".into()),
    };
    readiness.set(Check::Store, state);
    // After the store, because they may be consequences of its outage.
    check_keys(shared);
    check_writer(shared);
    readiness.checked();
    if done.is_err() {
        // The next round begins when the store has responded.
        let _ = reading.await;
    }
}

fn check_keys(shared: &Shared) {
    let (since, age) = shared.metrics.keys_current();
    let state = match age <= MAX_KEYS_AGE {
        true => CheckState::Ready,
        false => CheckState::Degraded(format!("not current since {since}").into()),
    };
    shared.readiness.set(Check::Keys, state);
}

fn check_writer(shared: &Shared) {
    let writer = shared.store.writer();
    let health = &writer.state.health;
    let state = match (writer.alive(), health.failure()) {
        (Err(_), _) => CheckState::Failed("it has stopped".into()),
        // Reads continue while writes fail: degraded, but ready. Logged below, with the cause.
        (Ok(()), Some(failure)) => CheckState::Degraded(failure.into()),
        (Ok(()), None) => CheckState::Ready,
    };
    shared.readiness.set(Check::Writer, state);
    health.log(shared.readiness.in_outage());
}
