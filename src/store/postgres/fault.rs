//! The broken variants of this engine, which the tests must catch. In a build without faults every hook returns what it is given.

use std::time::Duration;

use crate::fault::Fault;

/// Takes IDs from the number of the transaction, which is given out when it begins: commits do not follow it. Leaps, so that a
/// whole batch has room behind each.
const ID_FROM_SEQUENCE: &str = "SELECT pg_current_xact_id()::text::int8 * 1000";

const COUNT_NOTHING: &str = "SELECT $1::int8";

const RECORD_NO_RETRY: &str =
    "SELECT FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[], $5::int8[])";

/// One row, as if the batch were always new.
const RECORD_NO_BATCH: &str = "SELECT $1::text, $2::int8, $3::int8";

/// The statement for the last ID that was given out.
pub(super) fn last_id(sql: &'static str) -> &'static str {
    broken(Fault::IdsFromSequence, sql, ID_FROM_SEQUENCE)
}

/// The statement that moves the counter of IDs on.
pub(super) fn count(sql: &'static str) -> &'static str {
    broken(Fault::IdsFromSequence, sql, COUNT_NOTHING)
}

/// The statement that records what makes retries safe.
pub(super) fn insert_retries(sql: &'static str) -> &'static str {
    broken(Fault::NoRetryRecord, sql, RECORD_NO_RETRY)
}

/// The statement that records the ID of a batch of usage.
pub(super) fn record_batch(sql: &'static str) -> &'static str {
    broken(Fault::NoUsageBatchId, sql, RECORD_NO_BATCH)
}

/// The limits that the server enforces.
pub(super) fn limits(sql: &'static str) -> &'static str {
    broken(Fault::NoTimeouts, sql, "")
}

/// A timeout.
pub(super) fn timeout(timeout: Duration) -> Duration {
    match Fault::NoTimeouts.is_on() {
        true => Duration::from_secs(3_600),
        false => timeout,
    }
}

fn broken(fault: Fault, sql: &'static str, broken: &'static str) -> &'static str {
    match fault.is_on() {
        true => broken,
        false => sql,
    }
}
