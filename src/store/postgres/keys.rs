//! Keys in SQL. Every change of a key raises the revision, whose row stays locked until the commit: revisions ascend in the
//! order of commits, so a node that has seen one has missed none before it.

use std::time::Instant;

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::{Lease, Session};
use super::pets::digest;
use super::{Answer, START, Trouble, in_time};
use crate::clock::{Sample, Timestamp};
use crate::key::{KeyHash, KeyId, Secret};
use crate::limit::{Ban, BanChange};
use crate::plan::{Plan, PlanName};
use crate::store::{Changed, KEYS_AT_ONCE, KeyChange, KeyRecord, NewKey, Revisions};

const COLUMNS: &str = "id, name, plan, per_minute, per_day, prefix, hash, old_hash, old_until, created_at, expires_at, \
                       revoked_at, last_used_at, banned_at, banned_until, unbanned_at, revision";

const RAISE: &str = "UPDATE revisions SET number = number + 1 WHERE what = $1 RETURNING number";

const BAN: &str = "UPDATE api_keys SET banned_at = $3, banned_until = $4, revision = $2 \
     WHERE id = $1 AND (banned_at = $5::int8 OR ( \
         (unbanned_at IS NULL OR unbanned_at < $3 OR unbanned_at > $4) AND (banned_at IS NULL OR banned_at < $3)))";

/// What storing a ban needs.
pub(super) fn statements() -> Vec<String> {
    [RAISE, BAN].map(String::from).into()
}

pub(super) async fn revisions(lease: &Lease) -> Answer<Revisions> {
    let statement = lease
        .prepare_cached(
            "SELECT (SELECT number FROM revisions WHERE what = 'pets'),
                    (SELECT number FROM revisions WHERE what = 'api_keys'),
                    (extract(epoch FROM clock_timestamp()) * 1000)::int8",
        )
        .await?;
    let asked = Instant::now();
    let row = lease.query_one(&statement, &[]).await?;
    let time = Sample {
        time: Timestamp::from_millis(row.try_get(2)?),
        round_trip: asked.elapsed(),
    };
    Ok(Revisions {
        pets: row.try_get(0)?,
        keys: row.try_get(1)?,
        time: Some(time),
    })
}

pub(super) async fn add(
    transaction: &Transaction<'_>,
    key: &NewKey,
    secret: &Secret,
) -> Answer<KeyRecord> {
    let id = KeyId(take_number(transaction, "api_keys").await?);
    let revision = raise(transaction, "api_keys").await?;
    let (plan, per_minute, per_day) = columns(key.plan);
    transaction
        .execute(
            "INSERT INTO api_keys (id, name, plan, per_minute, per_day, prefix, hash, created_at, expires_at, revision)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            &[
                &id.0,
                &key.name,
                &plan,
                &per_minute,
                &per_day,
                &secret.prefix(),
                &&secret.hash().as_bytes()[..],
                &key.created_at.as_millis(),
                &key.expires_at.map(Timestamp::as_millis),
                &revision,
            ],
        )
        .await?;
    by_id(transaction, id)
        .await?
        .ok_or_else(|| Trouble::Failed("a key that was added is not there".into()))
}

pub(super) async fn by_id(client: &impl Session, id: KeyId) -> Answer<Option<KeyRecord>> {
    one(select(client, "WHERE id = $1", &[&id.0]).await?)
}

pub(super) async fn by_hash(lease: &Lease, hash: KeyHash) -> Answer<Option<KeyRecord>> {
    let hash = &hash.as_bytes()[..];
    one(select(&**lease, "WHERE hash = $1 OR old_hash = $1", &[&hash]).await?)
}

pub(super) async fn after(lease: &Lease, id: KeyId, limit: u16) -> Answer<Vec<KeyRecord>> {
    let which = "WHERE id > $1 ORDER BY id LIMIT $2";
    select(&**lease, which, &[&id.0, &i64::from(limit)]).await
}

/// One statement whose rows are fetched as they are taken. Pages would have to begin behind a revision, and whoever changes
/// many keys by hand gives them all the same one. Each page has a deadline of its own: how long all of them take depends on how
/// many there are and on how far away the database is.
pub(super) async fn since(
    lease: &mut Lease,
    revision: i64,
    mut each: impl FnMut(Vec<KeyRecord>),
) -> Answer<()> {
    let beginning = async {
        let transaction = lease.transaction().await?;
        transaction
            .batch_execute("SET LOCAL statement_timeout = 30000")
            .await?;
        let which = "WHERE revision > $1 ORDER BY revision";
        let statement = transaction
            .prepare_cached(&format!("SELECT {COLUMNS} FROM api_keys {which}"))
            .await?;
        let portal = transaction.bind(&statement, &[&revision]).await?;
        Ok((transaction, portal))
    };
    let (transaction, portal) = in_time(START, beginning).await?;
    loop {
        let reading = async {
            let rows = transaction.query_portal(&portal, i32::from(KEYS_AT_ONCE));
            rows.await?.iter().map(record).collect::<Answer<Vec<_>>>()
        };
        let page = in_time(START, reading).await?;
        let is_last = page.len() < usize::from(KEYS_AT_ONCE);
        each(page);
        if is_last {
            break;
        }
    }
    in_time(START, async { Ok(transaction.commit().await?) }).await
}

/// Changes a key as `decide` says. The row of the revision is locked first: no other change comes between.
pub(super) async fn change<E>(
    transaction: &Transaction<'_>,
    id: KeyId,
    decide: &impl Fn(&KeyRecord) -> Result<KeyChange, E>,
) -> Answer<Option<Result<Changed, E>>> {
    let revision = raise(transaction, "api_keys").await?;
    let Some(before) = by_id(transaction, id).await? else {
        return Ok(None);
    };
    let change = match decide(&before) {
        Ok(change) => change,
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    let (id, revision) = (&id.0, &revision);
    match change {
        KeyChange::Plan(plan) => {
            let (plan, per_minute, per_day) = columns(plan);
            let how = "SET plan = $3, per_minute = $4, per_day = $5, revision = $2 WHERE id = $1";
            update(
                transaction,
                how,
                &[id, revision, &plan, &per_minute, &per_day],
            )
            .await?;
        }
        KeyChange::Secret {
            hash,
            prefix,
            old_until,
        } => {
            let how = "SET old_hash = hash, old_until = $5, hash = $3, prefix = $4, revision = $2 WHERE id = $1";
            let (hash, old_until) = (&hash.as_bytes()[..], old_until.as_millis());
            update(
                transaction,
                how,
                &[id, revision, &hash, &prefix, &old_until],
            )
            .await?;
        }
        KeyChange::Revoke(now) => {
            let how = "SET revoked_at = $3, revision = $2 WHERE id = $1 AND revoked_at IS NULL";
            update(transaction, how, &[id, revision, &now.as_millis()]).await?;
        }
        KeyChange::Unban(now) => {
            // Never before the ban it ends, though that was dated by another machine's clock, and never twice the same.
            let how = "SET unbanned_at = greatest($3::int8, coalesce(banned_at, 0), coalesce(unbanned_at, 0) + 1), \
                       banned_at = NULL, banned_until = NULL, revision = $2 WHERE id = $1";
            update(transaction, how, &[id, revision, &now.as_millis()]).await?;
        }
    }
    let after = by_id(transaction, before.id)
        .await?
        .ok_or_else(|| Trouble::Failed("a key that was changed is not there".into()))?;
    Ok(Some(Ok(Changed { before, after })))
}

pub(super) async fn ban(
    transaction: &Transaction<'_>,
    id: KeyId,
    BanChange { ban, replaces }: BanChange,
) -> Answer<()> {
    let revision = raise(transaction, "api_keys").await?;
    let statement = transaction.prepare_cached(BAN).await?;
    let (began, until) = (ban.began.as_millis(), ban.until.as_millis());
    let replaced = replaces.map(Timestamp::as_millis);
    transaction
        .execute(&statement, &[&id.0, &revision, &began, &until, &replaced])
        .await?;
    Ok(())
}

async fn update(
    transaction: &Transaction<'_>,
    how: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Answer<()> {
    let statement = format!("UPDATE api_keys {how}");
    transaction.execute(&statement, values).await?;
    Ok(())
}

/// Raises a revision.
pub(super) async fn raise(transaction: &Transaction<'_>, what: &str) -> Answer<i64> {
    let statement = transaction.prepare_cached(RAISE).await?;
    let row = transaction.query_one(&statement, &[&what]).await?;
    Ok(row.try_get(0)?)
}

/// Takes the next identifier for a row of this kind.
pub(super) async fn take_number(transaction: &Transaction<'_>, what: &str) -> Answer<i64> {
    let row = transaction
        .query_one(
            "UPDATE counters SET number = number + 1 WHERE what = $1 RETURNING number",
            &[&what],
        )
        .await?;
    Ok(row.try_get(0)?)
}

async fn select(
    client: &impl Session,
    which: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Answer<Vec<KeyRecord>> {
    let statement = format!("SELECT {COLUMNS} FROM api_keys {which}");
    let rows = client.rows(&statement, values).await?;
    rows.iter().map(record).collect()
}

fn one(mut found: Vec<KeyRecord>) -> Answer<Option<KeyRecord>> {
    Ok(found.pop())
}

fn columns(plan: Plan) -> (&'static str, Option<i64>, Option<i64>) {
    match plan {
        Plan::Enterprise(limits) => (
            plan.name().word(),
            Some(limits.per_minute().into()),
            Some(limits.per_day().into()),
        ),
        _ => (plan.name().word(), None, None),
    }
}

fn record(row: &Row) -> Answer<KeyRecord> {
    let time = |column: usize| -> Answer<Option<Timestamp>> {
        let millis: Option<i64> = row.try_get(column)?;
        Ok(millis.map(Timestamp::from_millis))
    };
    let limit = |column: usize| -> Answer<Option<u32>> {
        let limit: Option<i64> = row.try_get(column)?;
        limit.map(u32::try_from).transpose().map_err(unreadable)
    };
    let plan = row
        .try_get::<_, &str>(2)?
        .parse::<PlanName>()
        .map_err(unreadable)?
        .with(limit(3)?, limit(4)?)
        .map_err(unreadable)?;
    let old = match time(8)? {
        Some(until) => Some((KeyHash::from_bytes(digest(row, 7)?), until)),
        None => None,
    };
    Ok(KeyRecord {
        id: KeyId(row.try_get(0)?),
        name: row.try_get(1)?,
        plan,
        prefix: row.try_get(5)?,
        hash: KeyHash::from_bytes(digest(row, 6)?),
        old,
        created_at: Timestamp::from_millis(row.try_get(9)?),
        expires_at: time(10)?,
        revoked_at: time(11)?,
        last_used_at: time(12)?,
        ban: time(13)?
            .zip(time(14)?)
            .map(|(began, until)| Ban { began, until }),
        unbanned_at: time(15)?,
        revision: row.try_get(16)?,
    })
}

/// A plan that somebody wrote by hand and we cannot read.
fn unreadable(error: impl std::error::Error) -> Trouble {
    Trouble::Failed(format!("a key's plan cannot be read: {error}"))
}
