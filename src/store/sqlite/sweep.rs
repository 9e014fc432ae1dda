//! Deletes what is too old to keep, a chunk at a time. A chunk is part of the same transaction as the creations that wait
//! with it, so it is small. SQLite uses the pages that it frees again.

use rusqlite::{Connection, params};

use crate::clock::{Day, Timestamp};

/// Retries in a chunk. Their names are random, so each of them lies on a page of its own, and a page is what costs.
const RETRIES: u32 = 200;

/// Days of use in a chunk. They lie side by side.
const USES: u32 = 1_000;

pub(super) fn retries(connection: &Connection, before: Timestamp) -> rusqlite::Result<bool> {
    let deleted = connection
        .prepare_cached(
            "DELETE FROM idempotency WHERE (api_key_id, idempotency_key) IN
                 (SELECT api_key_id, idempotency_key FROM idempotency
                  WHERE created_at <= ?1 ORDER BY created_at LIMIT ?2)",
        )?
        .execute(params![before.as_millis(), RETRIES])?;
    Ok(deleted == RETRIES as usize)
}

pub(super) fn usage(
    connection: &Connection,
    day: Day,
    batches: Timestamp,
) -> rusqlite::Result<bool> {
    // One row for each process that ever counted: few, and no more than a chunk is deleted of them either.
    let batches = connection
        .prepare_cached(
            "DELETE FROM use_batches WHERE recorder IN
                 (SELECT recorder FROM use_batches WHERE made_at <= ?1 LIMIT ?2)",
        )?
        .execute(params![batches.as_millis(), USES])?;
    let uses = connection
        .prepare_cached(
            "DELETE FROM usage_by_day WHERE (day, api_key_id) IN
                 (SELECT day, api_key_id FROM usage_by_day WHERE day < ?1 ORDER BY day, api_key_id LIMIT ?2)",
        )?
        .execute(params![day.to_string(), USES])?;
    Ok(batches.max(uses) == USES as usize)
}
