//! The use of keys by day, in SQL.

use deadpool_postgres::Transaction;

use super::connect::Lease;
use super::{Answer, Trouble};
use crate::clock::Day;
use crate::key::KeyId;
use crate::limit::DayUse;
use crate::store::UsageRow;

/// Use to add, column by column.
pub(super) struct Rows {
    days: Vec<String>,
    keys: Vec<i64>,
    requests: Vec<i64>,
    refused: Vec<i64>,
    last: Vec<i64>,
}

impl Rows {
    /// In one order on every node, so that two that add to the same keys wait for each other instead of blocking each other.
    pub(super) fn of(mut uses: Vec<(KeyId, DayUse)>) -> Self {
        uses.sort_by_key(|(key, on)| (on.day.start(), key.0));
        Self {
            days: uses.iter().map(|(_, on)| on.day.to_string()).collect(),
            keys: uses.iter().map(|(key, _)| key.0).collect(),
            requests: uses.iter().map(|(_, on)| on.requests.into()).collect(),
            refused: uses.iter().map(|(_, on)| on.refused.into()).collect(),
            last: uses.iter().map(|(_, on)| on.last.as_millis()).collect(),
        }
    }
}

pub(super) async fn add(transaction: &Transaction<'_>, rows: &Rows) -> Answer<()> {
    let count = transaction
        .prepare_cached(
            "INSERT INTO usage_by_day (day, api_key_id, requests, refused)
             SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[])
             ON CONFLICT (day, api_key_id) DO UPDATE
             SET requests = usage_by_day.requests + excluded.requests, refused = usage_by_day.refused + excluded.refused",
        )
        .await?;
    transaction
        .execute(
            &count,
            &[&rows.days, &rows.keys, &rows.requests, &rows.refused],
        )
        .await?;
    let touch = transaction
        .prepare_cached(
            "UPDATE api_keys SET last_used_at = greatest(coalesce(last_used_at, 0), used.last)
             FROM (SELECT id, max(last) AS last FROM unnest($1::int8[], $2::int8[]) AS one (id, last) GROUP BY id) AS used
             WHERE api_keys.id = used.id",
        )
        .await?;
    transaction
        .execute(&touch, &[&rows.keys, &rows.last])
        .await?;
    Ok(())
}

pub(super) async fn on(lease: &Lease, day: Day) -> Answer<Vec<(KeyId, u32)>> {
    let rows = lease
        .query(
            "SELECT api_key_id, requests FROM usage_by_day WHERE day = $1 ORDER BY api_key_id",
            &[&day.to_string()],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let requests: i64 = row.try_get(1)?;
            let requests = u32::try_from(requests)
                .map_err(|_| Trouble::Failed("a day's use cannot be read".into()))?;
            Ok((KeyId(row.try_get(0)?), requests))
        })
        .collect()
}

pub(super) async fn by_day(lease: &Lease, id: Option<KeyId>) -> Answer<Vec<UsageRow>> {
    let rows = lease
        .query(
            "SELECT day, api_key_id, name, requests, refused
             FROM usage_by_day JOIN api_keys ON api_keys.id = api_key_id
             WHERE $1::int8 IS NULL OR api_key_id = $1 ORDER BY day DESC, api_key_id",
            &[&id.map(|id| id.0)],
        )
        .await?;
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
