//! Keys in SQL.

use rusqlite::types::Type;
use rusqlite::{Connection, Params, Row, params};

use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId};
use crate::limit::{Ban, BanChange};
use crate::plan::{Plan, PlanName};
use crate::store::{Changed, KeyChange, KeyRecord, NewKey, Revisions};

const COLUMNS: &str = "id, name, plan, per_minute, per_day, prefix, hash, old_hash, old_until, created_at, expires_at, \
                       revoked_at, last_used_at, banned_at, banned_until, unbanned_at, revision";

pub(super) fn revisions(connection: &Connection) -> rusqlite::Result<Revisions> {
    connection
        .prepare_cached(
            "SELECT (SELECT number FROM revisions WHERE what = 'pets'),
                    (SELECT number FROM revisions WHERE what = 'api_keys')",
        )?
        .query_row((), |row| {
            Ok(Revisions {
                pets: row.get(0)?,
                keys: row.get(1)?,
                // The clock is this machine's, as everybody's who has the file.
                time: None,
            })
        })
}

pub(super) fn add(
    connection: &Connection,
    key: &NewKey,
    hash: KeyHash,
    prefix: &str,
) -> rusqlite::Result<KeyRecord> {
    let (plan, per_minute, per_day) = columns(key.plan);
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
}

pub(super) fn by_id(connection: &Connection, id: KeyId) -> rusqlite::Result<Option<KeyRecord>> {
    select(connection, "WHERE id = ?1", [id.0]).map(|mut found| found.pop())
}

pub(super) fn by_hash(
    connection: &Connection,
    hash: KeyHash,
) -> rusqlite::Result<Option<KeyRecord>> {
    select(
        connection,
        "WHERE hash = ?1 OR old_hash = ?1",
        [hash.as_bytes()],
    )
    .map(|mut found| found.pop())
}

pub(super) fn after(
    connection: &Connection,
    id: KeyId,
    limit: u16,
) -> rusqlite::Result<Vec<KeyRecord>> {
    let which = "WHERE id > ?1 ORDER BY id LIMIT ?2";
    select(connection, which, params![id.0, limit])
}

/// A page of changes. A trigger gives every change a revision of its own.
pub(super) fn since(
    connection: &Connection,
    revision: i64,
    limit: u16,
) -> rusqlite::Result<Vec<KeyRecord>> {
    let which = "WHERE revision > ?1 ORDER BY revision LIMIT ?2";
    select(connection, which, params![revision, limit])
}

/// Changes a key as `decide` says. Part of the writer's transaction, and there is one writer.
pub(super) fn change<E>(
    connection: &Connection,
    id: KeyId,
    decide: impl Fn(&KeyRecord) -> Result<KeyChange, E>,
) -> rusqlite::Result<Option<Result<Changed, E>>> {
    let Some(before) = by_id(connection, id)? else {
        return Ok(None);
    };
    let change = match decide(&before) {
        Ok(change) => change,
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    match change {
        KeyChange::Plan(plan) => {
            let (plan, per_minute, per_day) = columns(plan);
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
    }?;
    let after = by_id(connection, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(Some(Ok(Changed { before, after })))
}

pub(super) fn ban(connection: &Connection, id: KeyId, change: BanChange) -> rusqlite::Result<()> {
    let BanChange { ban, replaces } = change;
    connection
        .execute(
            "UPDATE api_keys SET banned_at = ?2, banned_until = ?3 WHERE id = ?1 AND (banned_at = ?4 OR (
                 (unbanned_at IS NULL OR unbanned_at < ?2 OR unbanned_at > ?3) AND
                 (banned_at IS NULL OR banned_at < ?2)))",
            params![
                id.0,
                ban.began.as_millis(),
                ban.until.as_millis(),
                replaces.map(Timestamp::as_millis)
            ],
        )
        .map(drop)
}

fn select(
    connection: &Connection,
    which: &str,
    params: impl Params,
) -> rusqlite::Result<Vec<KeyRecord>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM api_keys {which}"))?;
    statement.query_map(params, record)?.collect()
}

fn columns(plan: Plan) -> (&'static str, Option<u32>, Option<u32>) {
    match plan {
        Plan::Enterprise(limits) => (
            plan.name().word(),
            Some(limits.per_minute()),
            Some(limits.per_day()),
        ),
        _ => (plan.name().word(), None, None),
    }
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
        .map_err(unreadable)?
        .with(row.get(3)?, row.get(4)?)
        .map_err(unreadable)?;
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

/// A plan that somebody wrote by hand and we cannot read.
fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(2, Type::Text, Box::new(error))
}
