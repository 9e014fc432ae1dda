//! Checks whether the server can serve, and notes what was found in its readiness.

use std::pin::pin;
use std::time::Duration;

use super::super::shared::Shared;
use crate::clock::Timestamp;
use crate::health::{Check, State};
use crate::store;

/// How often it is checked. With [`LATE`] the result is never older than a second.
pub(super) const EVERY: Duration = Duration::from_millis(400);

/// How long the store may take to respond before that is noted. It is waited for all the same.
const LATE: Duration = Duration::from_millis(500);

/// How old the keys may be: how soon a change of a key takes effect on every node.
const KEYS_AGE: Duration = Duration::from_secs(5);

/// By how many milliseconds the clock of this machine may differ from the database's, which decides.
const NOTICEABLE: u64 = 1_000;

/// By how many milliseconds it may differ until this machine is not to be trusted.
const INTOLERABLE: u64 = 60_000;

/// One round of checks. A check that fails is noted, and no failure of the round.
pub(super) async fn run(shared: &Shared) -> store::Result<()> {
    let readiness = &shared.readiness;
    if let Some(redis) = &shared.redis {
        // Without it this node goes on with its own counters: worse, but ready.
        let state = match redis.is_healthy() {
            true => State::Ready,
            false => State::Degraded("limits are counted by this node alone".into()),
        };
        readiness.set(Check::Redis, state);
    }
    if shared.store.is_shared() {
        let state = match shared.clock.ahead().unsigned_abs() {
            off if off > INTOLERABLE => {
                State::Failed("more than a minute off the database's".into())
            }
            // The database's clock decides, so nothing is wrong yet.
            off if off > NOTICEABLE => {
                State::Degraded("more than a second off the database's".into())
            }
            _ => State::Ready,
        };
        readiness.set(Check::Clock, state);
    }
    let state = match shared.metrics.keys_age(shared.clock.now()) <= KEYS_AGE {
        true => State::Ready,
        false => {
            let since = Timestamp::from_millis(shared.metrics.keys_current_at.get());
            State::Degraded(format!("not current since {since}").into())
        }
    };
    readiness.set(Check::Keys, state);
    let writer = match (shared.store.writer_alive(), shared.store.write_failure()) {
        (false, _) => State::Failed("it has stopped".into()),
        // Reads go on while nothing can be written: worse, but ready. The store has logged it.
        (true, Some(trouble)) => State::Degraded(trouble.into()),
        (true, None) => State::Ready,
    };
    readiness.set(Check::Writer, writer);

    let mut reading = pin!(shared.store.ready());
    let done = match tokio::time::timeout(LATE, reading.as_mut()).await {
        Ok(done) => done,
        Err(_) => {
            readiness.set(Check::Store, State::Failed("no response in time".into()));
            readiness.checked();
            reading.await
        }
    };
    let state = match done {
        Ok(()) => State::Ready,
        Err(_) => State::Failed("it cannot be read".into()),
    };
    readiness.set(Check::Store, state);
    readiness.checked();
    Ok(())
}
