//! The contract for the use of keys.

use std::sync::Arc;

use super::contract::{Result, UsageRow, UseBatch};
use super::engine::dispatch;
use super::{RowStream, Store};
use crate::clock::{Day, Timestamp};
use crate::key::KeyId;

impl Store {
    /// Adds a batch to the use by day. MUST add all of it or nothing, and MUST add it once, however often it is sent and whatever
    /// the outcome before, within [`UseBatch::REMEMBERED`].
    pub async fn record_use(&self, batch: &Arc<UseBatch>) -> Result<()> {
        dispatch!(self.record_use(batch))
    }

    /// Requests counted on a day, for each key that made any; `u32::MAX` where there were more.
    pub async fn use_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        dispatch!(self.use_on(day))
    }

    /// The use by day, the latest day first, then by key: of one key or of all.
    pub fn usage(&self, key: Option<KeyId>) -> RowStream<'_, UsageRow> {
        RowStream::new(move |last: Option<UsageRow>| async move {
            dispatch!(self.usage_after(key, last.as_ref()))
        })
    }

    /// Deletes some of the use on days before this one, and some of the records of batches that were made before this moment; as
    /// few as [`sweep_retries`](Self::sweep_retries) does. Returns whether there may be more.
    pub async fn sweep_use(&self, day: Day, batches: Timestamp) -> Result<bool> {
        dispatch!(self.sweep_use(day, batches))
    }
}
