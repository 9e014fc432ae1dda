//! Keys in SQL.

use rusqlite::types::Type;
use rusqlite::{Connection, Params, Row, params};

use super::engine::Sqlite;
use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId, Secret};
use crate::limit::{Ban, BanChange};
use crate::plan::PlanName;
use crate::store::contract::{
    CHUNK, Changed, KEY_COLUMNS, KeyChange, KeyChanged, KeyRecord, NewKey, Result, plan_columns,
};

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
                    hash.as_bytes(),
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
        let which = "WHERE hash = ?1 OR old_hash = ?1";
        self.read(|connection| Ok(select(connection, which, [hash.as_bytes()])?.pop()))
    }

    pub(crate) async fn keys_after(&self, after: KeyId) -> Result<Vec<KeyRecord>> {
        let which = "WHERE id > ?1 ORDER BY id LIMIT ?2";
        self.read(|connection| select(connection, which, params![after.0, CHUNK]))
    }

    /// A separate read for each chunk: a long one would prevent checkpoints. A trigger gives every change a new revision.
    pub(crate) async fn keys_since(
        &self,
        mut revision: i64,
        mut each: impl FnMut(Vec<KeyRecord>),
    ) -> Result<()> {
        let which = "WHERE revision > ?1 ORDER BY revision LIMIT ?2";
        loop {
            let chunk =
                self.read(|connection| select(connection, which, params![revision, CHUNK]))?;
            let Some(last) = chunk.last() else {
                return Ok(());
            };
            revision = last.revision;
            let is_last = chunk.len() < usize::from(CHUNK);
            each(chunk);
            if is_last {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn change_key<E: Send + 'static>(
        &self,
        id: KeyId,
        decide: impl Fn(&KeyRecord) -> std::result::Result<KeyChange, E> + Send + 'static,
    ) -> KeyChanged<E> {
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
            Ok(Some(Ok(Changed { before, after })))
        })
        .await
    }

    pub(crate) async fn record_ban(&self, id: KeyId, change: BanChange) -> Result<()> {
        let BanChange { ban, replaces } = change;
        self.write(move |connection| {
            connection.execute(
                "UPDATE api_keys SET banned_at = ?2, banned_until = ?3 WHERE id = ?1 AND (banned_at = ?4 OR (
                     (unbanned_at IS NULL OR unbanned_at < ?2 OR unbanned_at > ?3) AND
                     (banned_at IS NULL OR banned_at < ?2)))",
                params![
                    id.0,
                    ban.began.as_millis(),
                    ban.until.as_millis(),
                    replaces.map(Timestamp::as_millis)
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
            params![id.0, hash.as_bytes(), prefix, old_until.as_millis()],
        ),
        KeyChange::Revoke(now) => connection.execute(
            "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
            params![id.0, now.as_millis()],
        ),
        KeyChange::Unban(now) => connection.execute(
            // Never before the ban it ends, though the clock has stepped back since, and never twice the same.
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
    which: &str,
    params: impl Params,
) -> rusqlite::Result<Vec<KeyRecord>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {KEY_COLUMNS} FROM api_keys {which}"))?;
    statement.query_map(params, record)?.collect()
}

fn record(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    let time = |column| {
        Ok::<_, rusqlite::Error>(
            row.get::<_, Option<i64>>(column)?
                .map(Timestamp::from_millis),
        )
    };
    let plan = row
        .get_ref(2)?
        .as_str()?
        .parse::<PlanName>()
        .map_err(invalid_plan)?
        .with(row.get(3)?, row.get(4)?)
        .map_err(invalid_plan)?;
    let old_hash: Option<[u8; 32]> = row.get(7)?;
    Ok(KeyRecord {
        id: KeyId(row.get(0)?),
        name: row.get(1)?,
        plan,
        prefix: row.get(5)?,
        hash: KeyHash::from_bytes(row.get(6)?),
        old: old_hash.map(KeyHash::from_bytes).zip(time(8)?),
        created_at: Timestamp::from_millis(row.get(9)?),
        expires_at: time(10)?,
        revoked_at: time(11)?,
        last_used_at: time(12)?,
        ban: time(13)?
            .zip(time(14)?)
            .map(|(began, until)| Ban { began, until }),
        unbanned_at: time(15)?,
        revision: row.get(16)?,
    })
}

/// The error for a plan that was written by hand and is invalid.
fn invalid_plan(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(2, Type::Text, Box::new(error))
}
