//! The usage of keys by day, in SQL.

use std::sync::Arc;

use deadpool_postgres::Transaction;

use super::engine::Postgres;
use super::error::PgResult;
use super::fault;
use super::pool::{Executor, SqlValue};
use super::timeout::REQUEST_TIMEOUT;
use crate::clock::Day;
use crate::fault::Fault;
use crate::key::KeyId;
use crate::limit::DayUsage;
use crate::store::contract::{CHUNK_ROWS, Result, UsageBatch, UsageRow};
use crate::store::row::{USAGE_COLUMNS, read_requests, read_usage};

const RECORD_BATCH: &str = "INSERT INTO use_batches (recorder, number, made_at) VALUES ($1, $2, $3)
     ON CONFLICT (recorder) DO UPDATE SET number = excluded.number, made_at = excluded.made_at
     WHERE use_batches.number < excluded.number";

const ADD_USAGE: &str = "INSERT INTO usage_by_day (day, api_key_id, requests, refused)
     SELECT day, id, requests, refused
     FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::int8[]) AS one (day, id, created_at, requests, refused)
     JOIN api_keys USING (id, created_at) ORDER BY day, id
     ON CONFLICT (day, api_key_id) DO UPDATE
     SET requests = usage_by_day.requests + excluded.requests, refused = usage_by_day.refused + excluded.refused";

/// A last use after $4 was stored while the clock was ahead, and is replaced.
const SET_LAST_USED: &str = "UPDATE api_keys SET last_used_at = greatest(CASE WHEN last_used_at <= $4 THEN last_used_at END, used.last)
     FROM (SELECT id, created_at, max(last) AS last FROM unnest($1::int8[], $2::int8[], $3::int8[]) AS one (id, created_at, last)
         GROUP BY id, created_at) AS used
     WHERE api_keys.id = used.id AND api_keys.created_at = used.created_at";

pub(super) const STATEMENTS: [&str; 3] = [RECORD_BATCH, ADD_USAGE, SET_LAST_USED];

impl Postgres {
    pub(crate) async fn record_usage(&self, batch: &Arc<UsageBatch>) -> Result<()> {
        self.transact(REQUEST_TIMEOUT, async |transaction| {
            add(transaction, batch).await
        })
        .await
    }

    pub(crate) async fn usage_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        let select =
            "SELECT api_key_id, requests FROM usage_by_day WHERE day = $1 ORDER BY api_key_id";
        self.read_many(async |lease| {
            let rows = lease.query_cached(select, &[&day.to_string()]).await?;
            rows.iter().map(read_requests).collect()
        })
        .await
    }

    pub(crate) async fn usage_of(&self, key: KeyId, before: &str) -> Result<Vec<UsageRow>> {
        let clause = "api_key_id = $1 AND day < $2 ORDER BY day DESC LIMIT $3";
        self.usage(clause, &[&key.0, &before, &i64::from(CHUNK_ROWS)])
            .await
    }

    pub(crate) async fn rest_of_day(&self, day: &str, after: KeyId) -> Result<Vec<UsageRow>> {
        // The condition on api_keys.id follows from the one on api_key_id, but the planner does not infer it: it would also read the
        // keys up to $2.
        let clause =
            "day = $1 AND api_key_id > $2 AND api_keys.id > $2 ORDER BY api_key_id LIMIT $3";
        self.usage(clause, &[&day, &after.0, &i64::from(CHUNK_ROWS)])
            .await
    }

    pub(crate) async fn usage_before(&self, day: &str, limit: i64) -> Result<Vec<UsageRow>> {
        let clause = "day < $1 ORDER BY day DESC, api_key_id LIMIT $2";
        self.usage(clause, &[&day, &limit]).await
    }

    pub(crate) async fn usage_since(&self, keys: &[KeyId], day: Day) -> Result<Vec<UsageRow>> {
        let clause = "api_key_id = ANY($1) AND day >= $2 ORDER BY api_key_id, day";
        let keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
        self.usage(clause, &[&keys, &day.to_string()]).await
    }

    async fn usage(&self, clause: &str, values: &[SqlValue<'_>]) -> Result<Vec<UsageRow>> {
        let select = format!(
            "SELECT {USAGE_COLUMNS} FROM usage_by_day JOIN api_keys ON api_keys.id = api_key_id WHERE {clause}"
        );
        self.read_many(async |lease| {
            let rows = lease.query_cached(&select, values).await?;
            rows.iter().map(read_usage).collect()
        })
        .await
    }
}

/// Adds a batch, unless its ID was recorded before. An attempt at the same batch that is still running holds the row
/// of that ID, so this one waits for its outcome.
async fn add(transaction: &Transaction<'_>, batch: &UsageBatch) -> PgResult<()> {
    let record = Fault::NoUsageBatchId.choose(RECORD_BATCH, fault::RECORD_NO_BATCH);
    let (recorder, made_at) = (&batch.recorder, batch.made_at.as_millis());
    let values: [SqlValue<'_>; 3] = [recorder, &batch.number, &made_at];
    if transaction.execute_cached(record, &values).await? == 0 {
        return Ok(());
    }
    let usage = &batch.usage;
    let column = |field: fn(&DayUsage) -> i64| -> Vec<i64> {
        usage.iter().map(|(_, of_day)| field(of_day)).collect()
    };
    let days: Vec<String> = usage
        .iter()
        .map(|(_, of_day)| of_day.day.to_string())
        .collect();
    let keys: Vec<i64> = usage.iter().map(|(key, _)| key.id.0).collect();
    let created = usage.iter().map(|(key, _)| key.created_at.as_millis());
    let created: Vec<i64> = created.collect();
    let requests = column(|of_day| of_day.requests.into());
    let rejected = column(|of_day| of_day.rejected.into());
    let last = column(|of_day| of_day.last.as_millis());
    let counted: [SqlValue<'_>; 5] = [&days, &keys, &created, &requests, &rejected];
    let expires_at = batch.expires_at().as_millis();
    let touched: [SqlValue<'_>; 4] = [&keys, &created, &last, &expires_at];
    // Sent together, for one round trip.
    let (counted, touched) = tokio::join!(
        biased;
        transaction.execute_cached(ADD_USAGE, &counted),
        transaction.execute_cached(SET_LAST_USED, &touched)
    );
    // The error of the first has the cause; that of the second may only say that the transaction has failed.
    counted?;
    touched?;
    Ok(())
}
