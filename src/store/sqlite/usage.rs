//! The usage of keys by day, in SQL.

use std::sync::Arc;

use rusqlite::{Connection, Params, params};

use super::Sqlite;
use crate::clock::Day;
use crate::key::KeyId;
use crate::store::contract::{CHUNK_ROWS, Result, UsageBatch, UsageRow};
use crate::store::row::{USAGE_COLUMNS, read_requests, read_usage};

impl Sqlite {
    pub(crate) async fn record_usage(&self, batch: &Arc<UsageBatch>) -> Result<()> {
        let batch = Arc::clone(batch);
        self.write(move |connection| add(connection, &batch)).await
    }

    pub(crate) async fn usage_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        let select = "SELECT api_key_id, requests FROM usage_by_day WHERE day = ?1";
        self.read(|connection| {
            let mut statement = connection.prepare_cached(select)?;
            statement
                .query_map([day.to_string()], |row| read_requests(row))?
                .collect()
        })
    }

    pub(crate) async fn usage_of(&self, key: KeyId, before: &str) -> Result<Vec<UsageRow>> {
        let clause = "api_key_id = ?1 AND day < ?2 ORDER BY day DESC LIMIT ?3";
        self.read(|connection| select(connection, clause, params![key.0, before, CHUNK_ROWS]))
    }

    pub(crate) async fn rest_of_day(&self, day: &str, after: KeyId) -> Result<Vec<UsageRow>> {
        let clause = "day = ?1 AND api_key_id > ?2 ORDER BY api_key_id LIMIT ?3";
        self.read(|connection| select(connection, clause, params![day, after.0, CHUNK_ROWS]))
    }

    pub(crate) async fn usage_before(&self, day: &str, limit: i64) -> Result<Vec<UsageRow>> {
        let clause = "day < ?1 ORDER BY day DESC, api_key_id LIMIT ?2";
        self.read(|connection| select(connection, clause, params![day, limit]))
    }

    pub(crate) async fn usage_since(&self, keys: &[KeyId], day: Day) -> Result<Vec<UsageRow>> {
        let clause = "api_key_id = ?1 AND day >= ?2 ORDER BY day";
        let day = day.to_string();
        self.read(|connection| {
            let of_key = |key: &KeyId| select(connection, clause, params![key.0, day]);
            let rows: rusqlite::Result<Vec<_>> = keys.iter().map(of_key).collect();
            Ok(rows?.concat())
        })
    }
}

/// Adds a batch, unless its ID was recorded before. A last use that was stored while the clock was ahead is replaced.
fn add(connection: &Connection, batch: &UsageBatch) -> rusqlite::Result<()> {
    let (made_at, expires_at) = (batch.made_at.as_millis(), batch.expires_at().as_millis());
    let recorded = connection
        .prepare_cached(
            "INSERT INTO use_batches (recorder, number, made_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (recorder) DO UPDATE SET number = excluded.number, made_at = excluded.made_at
             WHERE use_batches.number < excluded.number",
        )?
        .execute(params![batch.recorder, batch.number, made_at])?;
    if recorded == 0 {
        return Ok(());
    }
    let mut count = connection.prepare_cached(
        "INSERT INTO usage_by_day (day, api_key_id, requests, refused) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (day, api_key_id) DO UPDATE
         SET requests = requests + excluded.requests, refused = refused + excluded.refused",
    )?;
    let mut touch = connection.prepare_cached(
        "UPDATE api_keys SET last_used_at = max(CASE WHEN last_used_at <= ?4 THEN last_used_at ELSE 0 END, ?3)
         WHERE id = ?1 AND created_at = ?2",
    )?;
    for (key, on) in &batch.usage {
        let (id, created_at) = (key.id.0, key.created_at.as_millis());
        if touch.execute([id, created_at, on.last.as_millis(), expires_at])? > 0 {
            count.execute(params![on.day.to_string(), id, on.requests, on.rejected])?;
        }
    }
    Ok(())
}

fn select(
    connection: &Connection,
    clause: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<UsageRow>> {
    // The order of a CROSS JOIN is kept: the usage is found first, and for each row of it the name of its key.
    let select = format!(
        "SELECT {USAGE_COLUMNS} FROM usage_by_day CROSS JOIN api_keys ON api_keys.id = api_key_id WHERE {clause}"
    );
    let mut statement = connection.prepare_cached(&select)?;
    statement
        .query_map(values, |row| read_usage(row))?
        .collect()
}
