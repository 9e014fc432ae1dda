//! The contract for the usage of keys.

use std::sync::Arc;

use super::Store;
use super::contract::{CHUNK_ROWS, Result, UsageBatch, UsageRow};
use super::engine::dispatch;
use super::row_stream::{RowStream, row_stream};
use crate::clock::{Day, Timestamp};
use crate::key::KeyId;

/// Later than every day that is stored, in any collation.
const AFTER_ALL_DAYS: &str = "9999-99-99";

impl Store {
    /// Adds a batch to the usage by day. MUST add all of it or nothing, and MUST add it once, however often it is sent,
    /// within [`UsageBatch::RETENTION`]. MUST NOT add the usage of a key that the database has lost: its ID may be that of another key.
    pub async fn record_usage(&self, batch: &Arc<UsageBatch>) -> Result<()> {
        dispatch!(self.record_usage(batch))
    }

    /// Requests counted on a day, for each key that made any; `u32::MAX` where there were more.
    pub async fn usage_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        dispatch!(self.usage_on(day))
    }

    /// The usage by day, the latest day first, then by key: of one key or of all.
    pub fn usage(&self, key: Option<KeyId>) -> RowStream<'_, UsageRow> {
        row_stream(async move |last: Option<UsageRow>| {
            let day = last.as_ref().map_or(AFTER_ALL_DAYS, |last| &last.day);
            if let Some(key) = key {
                return dispatch!(self.usage_of(key, day));
            }
            // The rest of the last row's day, then the days before it: two statements that each start at a position in an index.
            let mut rows = match &last {
                Some(last) => dispatch!(self.rest_of_day(day, last.key))?,
                None => Vec::new(),
            };
            let room = usize::from(CHUNK_ROWS) - rows.len();
            if room > 0 {
                rows.extend(dispatch!(self.usage_before(day, room as i64))?);
            }
            Ok(rows)
        })
    }

    /// The usage of a few keys since a day, by key, then by day.
    pub async fn usage_since(&self, keys: &[KeyId], day: Day) -> Result<Vec<UsageRow>> {
        dispatch!(self.usage_since(keys, day))
    }

    /// Deletes some of the usage on days before this one, and some of the records of batches before this time; as few
    /// as [`sweep_idempotency`](Self::sweep_idempotency) does. Returns whether there may be more.
    pub async fn sweep_usage(&self, before: Day, batches_before: Timestamp) -> Result<bool> {
        dispatch!(self.sweep_usage(before, batches_before))
    }
}
