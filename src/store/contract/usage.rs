//! The usage of keys by day. It is stored in batches that can be repeated: on PostgreSQL the outcome of a commit may stay unknown,
//! because its reply is lost or arrives after the deadline. Each batch has an ID, which is recorded in the transaction that adds
//! the batch, so a repeated batch adds nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::{Day, Timestamp};
use crate::key::{KeyId, KeyIdentity};
use crate::limit::DayUsage;

/// Numbers the batches of one process. They are sent one after the other, so the store keeps only the number of the last one.
pub struct UsageRecorder {
    id: String,
    last: i64,
}

impl UsageRecorder {
    /// A recorder with a random ID: no two processes share one.
    pub fn new() -> std::io::Result<Self> {
        let id = format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?);
        Ok(Self { id, last: 0 })
    }

    /// The next batch. The previous one MUST have been stored, or must not be sent again.
    pub fn batch(
        &mut self,
        usage: impl IntoIterator<Item = (KeyIdentity, DayUsage)>,
        now: Timestamp,
    ) -> UsageBatch {
        self.last += 1;
        UsageBatch {
            recorder: self.id.clone(),
            number: self.last,
            made_at: now,
            usage: summed(usage),
        }
    }
}

/// Usage that is added at most once, however often it is sent. It never changes.
pub struct UsageBatch {
    /// The ID of the process that counted it.
    pub recorder: String,
    /// Its number among the batches of that process.
    pub number: i64,
    pub made_at: Timestamp,
    /// One entry for each day and key, in this order on every node: transactions that add to the same days and keys wait for each
    /// other. Only around midnight can two of them deadlock; one is then retried.
    pub usage: Vec<(KeyIdentity, DayUsage)>,
}

impl UsageBatch {
    /// How long the store keeps the number of the last batch of a process that sends no more.
    pub const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// Whether it is too old to be sent again: the store might no longer know its number. Half the retention is left for clocks
    /// that differ.
    pub fn is_too_old(&self, now: Timestamp) -> bool {
        self.expires_at() <= now
    }

    /// Returns when it is too old to be sent. It is stored before then, so a last use that is stored as later than that dates from a
    /// clock that was ahead.
    pub(crate) fn expires_at(&self) -> Timestamp {
        self.made_at.plus(Self::RETENTION / 2)
    }
}

fn summed(
    usage: impl IntoIterator<Item = (KeyIdentity, DayUsage)>,
) -> Vec<(KeyIdentity, DayUsage)> {
    let mut sums: BTreeMap<(Day, KeyIdentity), DayUsage> = BTreeMap::new();
    for (key, on) in usage {
        sums.entry((on.day, key))
            .and_modify(|sum| {
                sum.requests = sum.requests.saturating_add(on.requests);
                sum.rejected = sum.rejected.saturating_add(on.rejected);
                sum.last = sum.last.max(on.last);
            })
            .or_insert(on);
    }
    sums.into_iter().map(|((_, key), on)| (key, on)).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The day, as in `2026-11-15`.
    pub day: String,
    pub key: KeyId,
    pub name: String,
    /// Requests that were admitted.
    pub requests: i64,
    /// Requests with status 429.
    pub rejected: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(day: i64, requests: u32) -> DayUsage {
        let day = Day::from_number(day);
        DayUsage {
            day,
            requests,
            rejected: 1,
            last: day.start(),
        }
    }

    #[test]
    fn a_batch_has_one_entry_for_each_day_and_key_in_one_order() {
        let mut recorder = UsageRecorder::new().unwrap();
        let key = |id| KeyIdentity {
            id: KeyId(id),
            created_at: Timestamp::default(),
        };
        let usage = [
            (key(2), on(1, 5)),
            (key(1), on(2, 1)),
            (key(2), on(1, u32::MAX)),
            (key(1), on(1, 7)),
        ];
        let batch = recorder.batch(usage, Timestamp::default());
        let seen: Vec<_> = batch
            .usage
            .iter()
            .map(|(key, on)| (on.day.number(), key.id.0, on.requests, on.rejected))
            .collect();
        let expected = [(1, 1, 7, 1), (1, 2, u32::MAX, 2), (2, 1, 1, 1)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn no_two_batches_share_an_id_and_one_is_too_old_long_before_its_id_is_deleted() {
        let (mut one, mut two) = (UsageRecorder::new().unwrap(), UsageRecorder::new().unwrap());
        let now = Timestamp::from_secs(1_794_830_410);
        let batches = [one.batch([], now), one.batch([], now), two.batch([], now)];
        let ids: std::collections::HashSet<_> = batches
            .iter()
            .map(|batch| (&batch.recorder, batch.number))
            .collect();
        assert_eq!(ids.len(), 3);
        let age = UsageBatch::RETENTION / 2;
        assert!(!batches[0].is_too_old(now.plus(age - Duration::from_secs(1))));
        assert!(batches[0].is_too_old(now.plus(age)));
    }
}
