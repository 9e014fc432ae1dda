//! The usage of keys by day, in SQL.

use std::sync::Arc;

use rusqlite::{Connection, Params, params};

use super::engine::Sqlite;
use crate::clock::Day;
use crate::key::KeyId;
use crate::store::contract::{CHUNK, Result, UsageBatch, UsageRow};

impl Sqlite {
    pub(crate) async fn record_usage(&self, batch: &Arc<UsageBatch>) -> Result<()> {
        let batch = Arc::clone(batch);
        self.write(move |connection| add(connection, &batch)).await
    }

    pub(crate) async fn usage_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        self.read(|connection| {
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
        })
    }

    /// The rest of the last row's day, then the days before it: two statements that each begin at their place in an index.
    pub(crate) async fn usage_after(
        &self,
        key: Option<KeyId>,
        last: Option<&UsageRow>,
    ) -> Result<Vec<UsageRow>> {
        let day = last.map_or(UsageRow::AFTER_ALL_DAYS, |last| &last.day);
        self.read(|connection| {
            if let Some(key) = key {
                let which = "api_key_id = ?1 AND day < ?2 ORDER BY day DESC LIMIT ?3";
                return select(connection, which, params![key.0, day, CHUNK]);
            }
            let mut rows = match last {
                None => Vec::new(),
                Some(last) => {
                    let which = "day = ?1 AND api_key_id > ?2 ORDER BY api_key_id LIMIT ?3";
                    select(connection, which, params![day, last.key.0, CHUNK])?
                }
            };
            let room = usize::from(CHUNK) - rows.len();
            if room > 0 {
                let which = "day < ?1 ORDER BY day DESC, api_key_id LIMIT ?2";
                rows.extend(select(connection, which, params![day, room as i64])?);
            }
            Ok(rows)
        })
    }
}

/// Adds a batch, unless its ID was recorded before.
fn add(connection: &Connection, batch: &UsageBatch) -> rusqlite::Result<()> {
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
    for (key, on) in &batch.usage {
        count.execute(params![on.day.to_string(), key.0, on.requests, on.refused])?;
        touch.execute(params![key.0, on.last.as_millis()])?;
    }
    Ok(())
}

fn select(
    connection: &Connection,
    which: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<UsageRow>> {
    // The order of a CROSS JOIN is kept: the usage is found first, and for each row of it the name of its key.
    let all = "SELECT day, api_key_id, name, requests, refused
               FROM usage_by_day CROSS JOIN api_keys ON api_keys.id = api_key_id";
    connection
        .prepare_cached(&format!("{all} WHERE {which}"))?
        .query_map(values, |row| {
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
