//! The usage of keys by day, in SQL.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::deadline::TIMEOUT;
use super::engine::Postgres;
use super::error::PgResult;
use super::fault;
use super::pool::Lease;
use crate::clock::Day;
use crate::key::KeyId;
use crate::limit::DayUsage;
use crate::store::contract::{CHUNK, Result, UsageBatch, UsageRow};

const RECORD: &str = "INSERT INTO use_batches (recorder, number, made_at) VALUES ($1, $2, $3)
     ON CONFLICT (recorder) DO UPDATE SET number = excluded.number, made_at = excluded.made_at
     WHERE use_batches.number < excluded.number";

const COUNT: &str = "INSERT INTO usage_by_day (day, api_key_id, requests, refused)
     SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[])
     ON CONFLICT (day, api_key_id) DO UPDATE
     SET requests = usage_by_day.requests + excluded.requests, refused = usage_by_day.refused + excluded.refused";

const TOUCH: &str = "UPDATE api_keys SET last_used_at = greatest(coalesce(last_used_at, 0), used.last)
     FROM (SELECT id, max(last) AS last FROM unnest($1::int8[], $2::int8[]) AS one (id, last) GROUP BY id) AS used
     WHERE api_keys.id = used.id";

/// The statements that add a batch.
pub(super) const STATEMENTS: [&str; 3] = [RECORD, COUNT, TOUCH];

impl Postgres {
    pub(crate) async fn record_usage(&self, batch: &Arc<UsageBatch>) -> Result<()> {
        self.transact(TIMEOUT, async |transaction| add(transaction, batch).await)
            .await
    }

    pub(crate) async fn usage_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        self.read_many(async |lease| {
            let rows = lease
                .query(
                    "SELECT api_key_id, requests FROM usage_by_day WHERE day = $1 ORDER BY api_key_id",
                    &[&day.to_string()],
                )
                .await?;
            rows.iter()
                .map(|row| {
                    let requests: i64 = row.try_get(1)?;
                    let requests = u32::try_from(requests).unwrap_or(u32::MAX);
                    Ok((KeyId(row.try_get(0)?), requests))
                })
                .collect()
        })
        .await
    }

    /// The rest of the last row's day, then the days before it: two statements that each begin at their place in an index.
    pub(crate) async fn usage_after(
        &self,
        key: Option<KeyId>,
        last: Option<&UsageRow>,
    ) -> Result<Vec<UsageRow>> {
        let day = last.map_or(UsageRow::AFTER_ALL_DAYS, |last| &last.day);
        self.read_many(async |lease| {
            if let Some(key) = key {
                let which = "api_key_id = $1 AND day < $2 ORDER BY day DESC LIMIT $3";
                return select(lease, which, &[&key.0, &day, &i64::from(CHUNK)]).await;
            }
            let mut rows = match last {
                None => Vec::new(),
                Some(last) => {
                    let which = "day = $1 AND api_key_id > $2 ORDER BY api_key_id LIMIT $3";
                    select(lease, which, &[&day, &last.key.0, &i64::from(CHUNK)]).await?
                }
            };
            let room = i64::from(CHUNK) - rows.len() as i64;
            if room > 0 {
                let which = "day < $1 ORDER BY day DESC, api_key_id LIMIT $2";
                rows.extend(select(lease, which, &[&day, &room]).await?);
            }
            Ok(rows)
        })
        .await
    }
}

/// Adds a batch, unless its ID was recorded before. An attempt at the same batch that is still running holds the row
/// of that ID, so this one waits for its outcome.
async fn add(transaction: &Transaction<'_>, batch: &UsageBatch) -> PgResult<()> {
    if !is_new(transaction, batch).await? {
        return Ok(());
    }
    let usage = &batch.usage;
    let column =
        |of: fn(&DayUsage) -> i64| -> Vec<i64> { usage.iter().map(|(_, on)| of(on)).collect() };
    let days: Vec<String> = usage.iter().map(|(_, on)| on.day.to_string()).collect();
    let keys: Vec<i64> = usage.iter().map(|(key, _)| key.0).collect();
    let requests = column(|on| on.requests.into());
    let refused = column(|on| on.refused.into());
    let last = column(|on| on.last.as_millis());
    let count = transaction.prepare_cached(COUNT).await?;
    let touch = transaction.prepare_cached(TOUCH).await?;
    let counted: [&(dyn ToSql + Sync); 4] = [&days, &keys, &requests, &refused];
    let touched: [&(dyn ToSql + Sync); 2] = [&keys, &last];
    // Sent together, for one round trip.
    let (counted, touched) = tokio::join!(
        biased;
        transaction.execute(&count, &counted),
        transaction.execute(&touch, &touched)
    );
    // The error of the first says why: that of the second may only say that there was one.
    counted?;
    touched?;
    Ok(())
}

/// Records the ID of a batch. Returns whether it is a new one.
async fn is_new(transaction: &Transaction<'_>, batch: &UsageBatch) -> PgResult<bool> {
    let record = fault::record_batch(RECORD);
    let record = transaction.prepare_cached(record).await?;
    let made_at = batch.made_at.as_millis();
    let rows = transaction
        .execute(&record, &[&batch.recorder, &batch.number, &made_at])
        .await?;
    Ok(rows > 0)
}

async fn select(
    lease: &Lease,
    which: &str,
    values: &[&(dyn ToSql + Sync)],
) -> PgResult<Vec<UsageRow>> {
    let all = "SELECT day, api_key_id, name, requests, refused
               FROM usage_by_day JOIN api_keys ON api_keys.id = api_key_id";
    let rows = lease.query(&format!("{all} WHERE {which}"), values).await?;
    rows.iter()
        .map(|row| {
            Ok(UsageRow {
                day: row.try_get(0)?,
                key: KeyId(row.try_get(1)?),
                name: row.try_get(2)?,
                requests: row.try_get(3)?,
                refused: row.try_get(4)?,
            })
        })
        .collect()
}
