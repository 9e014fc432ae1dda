//! The use of keys by day, in SQL.

use rusqlite::{Connection, params};

use crate::clock::Day;
use crate::key::KeyId;
use crate::store::{UsageRow, UseBatch};

/// Adds a batch, unless its number says that it was added before.
pub(super) fn add(connection: &Connection, batch: &UseBatch) -> rusqlite::Result<()> {
    let is_new = connection
        .prepare_cached(
            "INSERT INTO use_batches (recorder, number, made_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (recorder) DO UPDATE SET number = excluded.number, made_at = excluded.made_at
             WHERE use_batches.number < excluded.number",
        )?
        .execute(params![
            batch.recorder,
            batch.number,
            batch.made_at.as_millis()
        ])?;
    if is_new == 0 {
        return Ok(());
    }
    let mut count = connection.prepare_cached(
        "INSERT INTO usage_by_day (day, api_key_id, requests, refused) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (day, api_key_id) DO UPDATE
         SET requests = requests + excluded.requests, refused = refused + excluded.refused",
    )?;
    let mut touch = connection.prepare_cached(
        "UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), ?2) WHERE id = ?1",
    )?;
    for (key, on) in &batch.uses {
        count.execute(params![on.day.to_string(), key.0, on.requests, on.refused])?;
        touch.execute(params![key.0, on.last.as_millis()])?;
    }
    Ok(())
}

pub(super) fn on(connection: &Connection, day: Day) -> rusqlite::Result<Vec<(KeyId, u32)>> {
    connection
        .prepare_cached("SELECT api_key_id, requests FROM usage_by_day WHERE day = ?1")?
        .query_map([day.to_string()], |row| {
            let requests: i64 = row.get(1)?;
            Ok((
                KeyId(row.get(0)?),
                u32::try_from(requests).unwrap_or(u32::MAX),
            ))
        })?
        .collect()
}

pub(super) fn by_day(
    connection: &Connection,
    id: Option<KeyId>,
) -> rusqlite::Result<Vec<UsageRow>> {
    connection
        .prepare_cached(
            "SELECT day, api_key_id, name, requests, refused
             FROM usage_by_day JOIN api_keys ON api_keys.id = api_key_id
             WHERE ?1 IS NULL OR api_key_id = ?1 ORDER BY day DESC, api_key_id",
        )?
        .query_map([id.map(|id| id.0)], |row| {
            Ok(UsageRow {
                day: row.get(0)?,
                key: KeyId(row.get(1)?),
                name: row.get(2)?,
                requests: row.get(3)?,
                refused: row.get(4)?,
            })
        })?
        .collect()
}
