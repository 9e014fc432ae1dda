//! The deletion of old rows, in chunks: each is a separate transaction, well within the timeout of a statement.
//! Rows that another node is deleting are left to it, so nodes that sweep at the same time do not wait for each other.

use super::engine::Postgres;
use super::pool::Executor;
use super::timeout::REQUEST_TIMEOUT;
use crate::clock::{Day, Timestamp};
use crate::store::contract::Result;

/// Rows in a chunk. It is a literal in the statements: where it is a parameter, PostgreSQL plans for any number of rows, and
/// reads the whole table.
const SWEEP_ROWS: u64 = 500;

const DELETE_IDEMPOTENCY: &str = "DELETE FROM idempotency WHERE (api_key_id, idempotency_key) IN
     (SELECT api_key_id, idempotency_key FROM idempotency
      WHERE created_at <= $1 ORDER BY created_at LIMIT 500 FOR UPDATE SKIP LOCKED)";

const DELETE_BATCHES: &str = "DELETE FROM use_batches WHERE recorder IN
     (SELECT recorder FROM use_batches WHERE made_at <= $1 LIMIT 500 FOR UPDATE SKIP LOCKED)";

const DELETE_USAGE: &str = "DELETE FROM usage_by_day WHERE (day, api_key_id) IN
     (SELECT day, api_key_id FROM usage_by_day
      WHERE day < $1 ORDER BY day, api_key_id LIMIT 500 FOR UPDATE SKIP LOCKED)";

pub(super) const STATEMENTS: [&str; 3] = [DELETE_IDEMPOTENCY, DELETE_BATCHES, DELETE_USAGE];

impl Postgres {
    pub(crate) async fn sweep_idempotency(&self, before: Timestamp) -> Result<bool> {
        self.transact(REQUEST_TIMEOUT, async |transaction| {
            let before = before.as_millis();
            Ok(transaction
                .execute_cached(DELETE_IDEMPOTENCY, &[&before])
                .await?
                == SWEEP_ROWS)
        })
        .await
    }

    pub(crate) async fn sweep_usage(&self, before: Day, batches_before: Timestamp) -> Result<bool> {
        self.transact(REQUEST_TIMEOUT, async |transaction| {
            let (day, batches_before) = (before.to_string(), batches_before.as_millis());
            let batches = transaction
                .execute_cached(DELETE_BATCHES, &[&batches_before])
                .await?;
            let usage = transaction.execute_cached(DELETE_USAGE, &[&day]).await?;
            Ok(batches.max(usage) == SWEEP_ROWS)
        })
        .await
    }
}
