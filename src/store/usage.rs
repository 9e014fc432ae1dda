//! The contract for the usage of keys.

use std::sync::Arc;

use super::contract::{Result, UsageBatch, UsageRow};
use super::engine::dispatch;
use super::{RowStream, Store};
use crate::clock::{Day, Timestamp};
use crate::key::KeyId;

impl Store {
    /// Adds a batch to the usage by day. MUST add all of it or nothing, and MUST add it once, however often it is sent,
    /// within [`UsageBatch::RETENTION`].
    pub async fn record_usage(&self, batch: &Arc<UsageBatch>) -> Result<()> {
        dispatch!(self.record_usage(batch))
    }

    /// Requests counted on a day, for each key that made any; `u32::MAX` where there were more.
    pub async fn usage_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        dispatch!(self.usage_on(day))
    }

    /// The usage by day, the latest day first, then by key: of one key or of all.
    pub fn usage(&self, key: Option<KeyId>) -> RowStream<'_, UsageRow> {
        RowStream::new(move |last: Option<UsageRow>| async move {
            dispatch!(self.usage_after(key, last.as_ref()))
        })
    }

    /// Deletes some of the usage on days before this one, and some of the records of batches before this time; as few
    /// as [`sweep_retries`](Self::sweep_retries) does. Returns whether there may be more.
    pub async fn sweep_usage(&self, day: Day, batches: Timestamp) -> Result<bool> {
        dispatch!(self.sweep_usage(day, batches))
    }
}
