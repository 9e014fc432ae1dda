//! The faults of this engine: broken statements, which the tests must catch, and timeouts.

use std::time::Duration;

use crate::fault::Fault;

/// Takes IDs from the ID of the transaction, which, like a value of a sequence, is assigned before the commit, so IDs do not ascend in
/// commit order. A multiple of 1000, so that the IDs of a whole batch fit in between.
pub(super) const ID_FROM_SEQUENCE: &str = "SELECT pg_current_xact_id()::text::int8 * 1000";

pub(super) const COUNT_NOTHING: &str = "SELECT $1::int8";

pub(super) const NO_IDEMPOTENCY_RECORD: &str =
    "SELECT FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[], $5::int8[])";

/// One row, as if the batch were always new.
pub(super) const RECORD_NO_BATCH: &str = "SELECT $1::text, $2::int8, $3::int8";

/// A timeout that never expires if timeouts are broken.
pub(super) fn timeout(timeout: Duration) -> Duration {
    Fault::NoTimeouts.choose(timeout, Duration::from_secs(3_600))
}
