//! The deletion of old rows, in chunks. A chunk is part of the same transaction as the creations that wait
//! with it, so it is small. SQLite reuses the pages that it frees.
//!
//! Rows are found first and deleted one by one: `DELETE … WHERE (a, b) IN (SELECT …)` looks at every row that has the same `a`.

use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params};

use super::Sqlite;
use crate::clock::{Day, Timestamp};
use crate::store::contract::Result;

/// Rows in a chunk. Rows of the same age are on different pages, and the cost is per page: about 2 ms for a chunk, and as much again
/// for the checkpoint.
const SWEEP_ROWS: usize = 100;

impl Sqlite {
    pub(crate) async fn sweep_idempotency(&self, before: Timestamp) -> Result<bool> {
        let sweep = move |connection: &Connection| idempotency(connection, before);
        self.writer.run(sweep, true).await
    }

    pub(crate) async fn sweep_usage(&self, before: Day, batches_before: Timestamp) -> Result<bool> {
        let sweep = move |connection: &Connection| usage(connection, before, batches_before);
        self.writer.run(sweep, true).await
    }
}

fn idempotency(connection: &Connection, before: Timestamp) -> rusqlite::Result<bool> {
    let find = "SELECT api_key_id, idempotency_key FROM idempotency
                WHERE created_at <= ?1 ORDER BY created_at LIMIT ?2";
    let delete = "DELETE FROM idempotency WHERE api_key_id = ?1 AND idempotency_key = ?2";
    delete_chunk(connection, find, &before.as_millis(), delete)
}

fn usage(
    connection: &Connection,
    before: Day,
    batches_before: Timestamp,
) -> rusqlite::Result<bool> {
    // There is one for each process that counted in the last weeks, so they are few.
    connection
        .prepare_cached("DELETE FROM use_batches WHERE made_at <= ?1")?
        .execute([batches_before.as_millis()])?;
    let find =
        "SELECT day, api_key_id FROM usage_by_day WHERE day < ?1 ORDER BY day, api_key_id LIMIT ?2";
    let delete = "DELETE FROM usage_by_day WHERE day = ?1 AND api_key_id = ?2";
    delete_chunk(connection, find, &before.to_string(), delete)
}

/// Deletes the rows whose primary keys `find` returns. Returns whether there may be more.
fn delete_chunk(
    connection: &Connection,
    find: &str,
    before: &dyn ToSql,
    delete: &str,
) -> rusqlite::Result<bool> {
    let old: Vec<(Value, Value)> = connection
        .prepare_cached(find)?
        .query_map(params![before, SWEEP_ROWS as i64], |row| row.try_into())?
        .collect::<rusqlite::Result<_>>()?;
    let mut delete = connection.prepare_cached(delete)?;
    for key in &old {
        delete.execute(params![key.0, key.1])?;
    }
    Ok(old.len() == SWEEP_ROWS)
}

#[cfg(test)]
mod tests {
    use super::super::migrations;
    use super::*;

    const ROWS: usize = 20_000;

    fn number(connection: &Connection, sql: &str) -> i64 {
        connection.query_row(sql, (), |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_space_of_swept_rows_is_reused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrations::run(&mut connection).unwrap();
        let mut pages = Vec::new();
        for round in 0..6 {
            let fill = format!(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
                 INSERT INTO idempotency SELECT i % 7, randomblob(32), randomblob(32), i, {round} FROM n"
            );
            connection.execute_batch(&fill).unwrap();
            // Those of the round before are too old.
            let mut chunks = 0;
            while idempotency(&connection, Timestamp::from_millis(round - 1)).unwrap() {
                chunks += 1;
            }
            assert_eq!(chunks, if round == 0 { 0 } else { ROWS / SWEEP_ROWS });
            assert_eq!(
                number(&connection, "SELECT count(*) FROM idempotency"),
                ROWS as i64
            );
            pages.push(number(&connection, "PRAGMA page_count"));
        }
        // It grows until it holds two rounds, and no further.
        assert!(pages[5] <= pages[1] + pages[1] / 20, "{pages:?}");
    }
}
