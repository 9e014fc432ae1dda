//! Keys in SQL.

use rusqlite::{Connection, Params, params, params_from_iter};

use super::Sqlite;
use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId, KeyIdentity, Secret};
use crate::limit::BanChange;
use crate::store::contract::{
    CHUNK_ROWS, ChangedKey, KeyChange, KeyChangeResult, KeyList, KeyListQuery, KeyRecord, NewKey,
    Result,
};
use crate::store::row::{KEY_COLUMNS, plan_columns, read_key};

impl Sqlite {
    pub(crate) async fn add_key(&self, key: NewKey, secret: &Secret) -> Result<KeyRecord> {
        let (hash, prefix) = (secret.hash(), secret.prefix().to_owned());
        self.write(move |connection| {
            let (plan, per_minute, per_day) = plan_columns(key.plan);
            connection.execute(
                "INSERT INTO api_keys (name, plan, per_minute, per_day, prefix, hash, created_at, expires_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    key.name,
                    plan,
                    per_minute,
                    per_day,
                    prefix,
                    hash.0,
                    key.created_at.as_millis(),
                    key.expires_at.map(Timestamp::as_millis)
                ],
            )?;
            by_id(connection, KeyId(connection.last_insert_rowid()))?
                .ok_or(rusqlite::Error::QueryReturnedNoRows)
        })
        .await
    }

    pub(crate) async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>> {
        self.read(|connection| by_id(connection, id))
    }

    pub(crate) async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<KeyRecord>> {
        let clause = "WHERE hash = ?1 OR old_hash = ?1";
        self.read(|connection| Ok(select(connection, clause, [hash.0])?.pop()))
    }

    pub(crate) async fn keys_after(&self, after: KeyId) -> Result<Vec<KeyRecord>> {
        let clause = "WHERE id > ?1 ORDER BY id LIMIT ?2";
        self.read(|connection| select(connection, clause, params![after.0, CHUNK_ROWS]))
    }

    /// Only IDs are sorted, and only the keys of the page are read. With a LIMIT, SQLite keeps the rows up to the end of the page
    /// in a tree while it reads all: fast at the beginning of the list, and slower than sorting all of them far down.
    pub(crate) async fn key_list(&self, query: &KeyListQuery) -> Result<KeyList> {
        let matching = query.condition('?');
        let (listed, skipped) = match query.offset {
            0..1_000 => (query.selection('?'), 0),
            offset => (query.ordered('?'), offset),
        };
        let count = format!("SELECT count(*) FROM api_keys {}", matching.text);
        let ids = format!("SELECT id FROM api_keys {}", listed.text);
        self.read(|connection| {
            let params = params_from_iter(&matching.params);
            let total = connection.query_row(&count, params, |row| row.get(0))?;
            let mut statement = connection.prepare_cached(&ids)?;
            let ids = statement.query_map(params_from_iter(&listed.params), |row| row.get(0))?;
            let part = ids.skip(skipped as usize).take(query.limit.into());
            let keys = part.map(|id| by_id(connection, KeyId(id?)));
            let keys: rusqlite::Result<Vec<_>> = keys.collect();
            let keys = keys?.into_iter().flatten().collect();
            Ok(KeyList { keys, total })
        })
    }

    /// A separate read for each chunk: a long one would prevent checkpoints. A trigger gives every change that a server must apply a
    /// new revision, but many keys that were copied from PostgreSQL may share one.
    pub(crate) async fn keys_since(
        &self,
        revision: i64,
        mut each: impl FnMut(Vec<KeyRecord>),
    ) -> Result<()> {
        let mut last = (revision, i64::MAX);
        loop {
            // Two statements: for both columns in one comparison SQLite would use the first column of the index only.
            let chunk = self.read(|connection| {
                let same = "WHERE revision = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
                let chunk = select(connection, same, params![last.0, last.1, CHUNK_ROWS])?;
                if !chunk.is_empty() {
                    return Ok(chunk);
                }
                let later = "WHERE revision > ?1 ORDER BY revision, id LIMIT ?2";
                select(connection, later, params![last.0, CHUNK_ROWS])
            })?;
            let Some(key) = chunk.last() else {
                return Ok(());
            };
            last = (key.revision, key.id.0);
            each(chunk);
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn change_key<E: Send + 'static>(
        &self,
        id: KeyId,
        decide: impl Fn(&KeyRecord) -> std::result::Result<KeyChange, E> + Send + 'static,
    ) -> KeyChangeResult<E> {
        // There is one writer, so nothing changes between reading and writing.
        self.write(move |connection| {
            let Some(before) = by_id(connection, id)? else {
                return Ok(None);
            };
            match decide(&before) {
                Ok(change) => write(connection, id, change)?,
                Err(rejection) => return Ok(Some(Err(rejection))),
            }
            let after = by_id(connection, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            Ok(Some(Ok(ChangedKey { before, after })))
        })
        .await
    }

    pub(crate) async fn record_ban(&self, key: KeyIdentity, change: BanChange) -> Result<()> {
        let BanChange { ban, replaces } = change;
        self.write(move |connection| {
            connection.execute(
                "UPDATE api_keys SET banned_at = ?2, banned_until = ?3 WHERE id = ?1 AND created_at = ?5 AND (banned_at = ?4 OR (
                     (unbanned_at IS NULL OR unbanned_at < ?2 OR unbanned_at > ?3) AND
                     (banned_at IS NULL OR banned_at < ?2)))",
                params![
                    key.id.0,
                    ban.started_at.as_millis(),
                    ban.until.as_millis(),
                    replaces.map(Timestamp::as_millis),
                    key.created_at.as_millis()
                ],
            )?;
            Ok(())
        })
        .await
    }
}

fn write(connection: &Connection, id: KeyId, change: KeyChange) -> rusqlite::Result<()> {
    match change {
        KeyChange::Plan(plan) => {
            let (plan, per_minute, per_day) = plan_columns(plan);
            connection.execute(
                "UPDATE api_keys SET plan = ?2, per_minute = ?3, per_day = ?4 WHERE id = ?1",
                params![id.0, plan, per_minute, per_day],
            )
        }
        KeyChange::Secret {
            hash,
            prefix,
            old_until,
        } => connection.execute(
            "UPDATE api_keys SET old_hash = hash, old_until = ?4, hash = ?2, prefix = ?3 WHERE id = ?1",
            params![id.0, hash.0, prefix, old_until.as_millis()],
        ),
        KeyChange::Revoke(now) => connection.execute(
            "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
            params![id.0, now.as_millis()],
        ),
        KeyChange::Unban(now) => connection.execute(
            // No earlier than the ban, even if the clock has stepped back since, and later than every unban before.
            "UPDATE api_keys SET unbanned_at = max(?2, coalesce(banned_at, 0), coalesce(unbanned_at, 0) + 1),
                 banned_at = NULL, banned_until = NULL WHERE id = ?1",
            params![id.0, now.as_millis()],
        ),
    }
    .map(drop)
}

fn by_id(connection: &Connection, id: KeyId) -> rusqlite::Result<Option<KeyRecord>> {
    Ok(select(connection, "WHERE id = ?1", [id.0])?.pop())
}

fn select(
    connection: &Connection,
    clause: &str,
    params: impl Params,
) -> rusqlite::Result<Vec<KeyRecord>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {KEY_COLUMNS} FROM api_keys {clause}"))?;
    statement.query_map(params, |row| read_key(row))?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Database, Mode, Store};

    #[tokio::test]
    async fn keys_that_share_a_revision_are_all_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let database = Database::Sqlite(path.clone());
        let store = Store::open(&database, Mode::Migrate, 1).await.unwrap();
        let count = 2 * usize::from(CHUNK_ROWS) + 1;
        let fill = format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             INSERT INTO api_keys (name, plan, prefix, hash, created_at)
             SELECT 'a', 'free', 'as_12345', randomblob(32), 0 FROM n;
             UPDATE api_keys SET revision = 7"
        );
        Connection::open(path)
            .unwrap()
            .execute_batch(&fill)
            .unwrap();
        for (revision, expected) in [(-1, count), (6, count), (7, 0)] {
            let mut ids = Vec::new();
            let each = |keys: Vec<KeyRecord>| ids.extend(keys.iter().map(|key| key.id.0));
            store.keys_since(revision, each).await.unwrap();
            let all: Vec<i64> = (1..).take(expected).collect();
            assert_eq!(ids, all, "{revision}");
        }
    }
}
