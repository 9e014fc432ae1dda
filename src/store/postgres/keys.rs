//! Keys in SQL. Every change of a key raises the revision.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::counters::{RAISE, digest, next_id, raise_revision};
use super::deadline::{LONG_TIMEOUT, TIMEOUT, in_time};
use super::engine::Postgres;
use super::error::{PgError, PgResult};
use super::pool::{Lease, Session};
use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId, Secret};
use crate::limit::{Ban, BanChange};
use crate::plan::PlanName;
use crate::store::contract::{
    CHUNK, Changed, KEY_COLUMNS, KeyChange, KeyChanged, KeyRecord, NewKey, Result, plan_columns,
};

const BAN: &str = "UPDATE api_keys SET banned_at = $3, banned_until = $4, revision = $2 \
     WHERE id = $1 AND (banned_at = $5::int8 OR ( \
         (unbanned_at IS NULL OR unbanned_at < $3 OR unbanned_at > $4) AND (banned_at IS NULL OR banned_at < $3)))";

/// The statements that store a ban.
pub(super) const STATEMENTS: [&str; 2] = [RAISE, BAN];

impl Postgres {
    pub(crate) async fn add_key(&self, key: NewKey, secret: &Secret) -> Result<KeyRecord> {
        self.transact(LONG_TIMEOUT, async |transaction| {
            let id = KeyId(next_id(transaction, "api_keys").await?);
            let revision = raise_revision(transaction, "api_keys").await?;
            let (plan, per_minute, per_day) = plan_columns(key.plan);
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
                .ok_or_else(|| PgError::Failed("a key that was added is not there".into()))
        })
        .await
    }

    pub(crate) async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>> {
        self.read(async |lease| by_id(&**lease, id).await).await
    }

    pub(crate) async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<KeyRecord>> {
        self.read(async |lease| {
            let hash = &hash.as_bytes()[..];
            let which = "WHERE hash = $1 OR old_hash = $1";
            Ok(select(&**lease, which, &[&hash]).await?.pop())
        })
        .await
    }

    pub(crate) async fn keys_after(&self, after: KeyId) -> Result<Vec<KeyRecord>> {
        let which = "WHERE id > $1 ORDER BY id LIMIT $2";
        self.read_many(async |lease| select(&**lease, which, &[&after.0, &i64::from(CHUNK)]).await)
            .await
    }

    pub(crate) async fn keys_since(
        &self,
        revision: i64,
        each: impl FnMut(Vec<KeyRecord>),
    ) -> Result<()> {
        let mut lease = self.pool.borrow_within(LONG_TIMEOUT).await?;
        since(&mut lease, revision, each).await?;
        lease.release();
        Ok(())
    }

    pub(crate) async fn change_key<E>(
        &self,
        id: KeyId,
        decide: impl Fn(&KeyRecord) -> std::result::Result<KeyChange, E>,
    ) -> KeyChanged<E> {
        self.transact(LONG_TIMEOUT, async |transaction| {
            // The row of the revision is locked first: no other change comes between.
            let revision = raise_revision(transaction, "api_keys").await?;
            let Some(before) = by_id(transaction, id).await? else {
                return Ok(None);
            };
            match decide(&before) {
                Ok(change) => write(transaction, id, revision, change).await?,
                Err(rejection) => return Ok(Some(Err(rejection))),
            }
            let after = by_id(transaction, id)
                .await?
                .ok_or_else(|| PgError::Failed("a key that was changed is not there".into()))?;
            Ok(Some(Ok(Changed { before, after })))
        })
        .await
    }

    pub(crate) async fn record_ban(&self, id: KeyId, change: BanChange) -> Result<()> {
        let BanChange { ban, replaces } = change;
        self.transact(TIMEOUT, async |transaction| {
            let revision = raise_revision(transaction, "api_keys").await?;
            let statement = transaction.prepare_cached(BAN).await?;
            let (began, until) = (ban.began.as_millis(), ban.until.as_millis());
            let replaced = replaces.map(Timestamp::as_millis);
            transaction
                .execute(&statement, &[&id.0, &revision, &began, &until, &replaced])
                .await?;
            Ok(())
        })
        .await
    }
}

/// One statement whose rows are fetched a chunk at a time. Separate statements would have to start after a revision, and many
/// keys that are changed by hand may share one. Each chunk has a separate deadline: the total time depends on the number of keys
/// and on the round trip.
async fn since(
    lease: &mut Lease,
    revision: i64,
    mut each: impl FnMut(Vec<KeyRecord>),
) -> PgResult<()> {
    let beginning = async {
        let transaction = lease.transaction().await?;
        transaction
            .batch_execute("SET LOCAL statement_timeout = 30000")
            .await?;
        let which = "WHERE revision > $1 ORDER BY revision";
        let statement = transaction
            .prepare_cached(&format!("SELECT {KEY_COLUMNS} FROM api_keys {which}"))
            .await?;
        let portal = transaction.bind(&statement, &[&revision]).await?;
        Ok((transaction, portal))
    };
    let (transaction, portal) = in_time(LONG_TIMEOUT, beginning).await?;
    loop {
        let reading = async {
            let rows = transaction.query_portal(&portal, i32::from(CHUNK));
            rows.await?.iter().map(record).collect::<PgResult<Vec<_>>>()
        };
        let chunk = in_time(LONG_TIMEOUT, reading).await?;
        let is_last = chunk.len() < usize::from(CHUNK);
        each(chunk);
        if is_last {
            break;
        }
    }
    in_time(LONG_TIMEOUT, async { Ok(transaction.commit().await?) }).await
}

async fn write(
    transaction: &Transaction<'_>,
    id: KeyId,
    revision: i64,
    change: KeyChange,
) -> PgResult<()> {
    let (id, revision) = (&id.0, &revision);
    match change {
        KeyChange::Plan(plan) => {
            let (plan, per_minute, per_day) = plan_columns(plan);
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
    Ok(())
}

async fn update(
    transaction: &Transaction<'_>,
    how: &str,
    values: &[&(dyn ToSql + Sync)],
) -> PgResult<()> {
    let statement = format!("UPDATE api_keys {how}");
    transaction.execute(&statement, values).await?;
    Ok(())
}

async fn by_id(client: &impl Session, id: KeyId) -> PgResult<Option<KeyRecord>> {
    Ok(select(client, "WHERE id = $1", &[&id.0]).await?.pop())
}

async fn select(
    client: &impl Session,
    which: &str,
    values: &[&(dyn ToSql + Sync)],
) -> PgResult<Vec<KeyRecord>> {
    let statement = format!("SELECT {KEY_COLUMNS} FROM api_keys {which}");
    let rows = client.rows(&statement, values).await?;
    rows.iter().map(record).collect()
}

fn record(row: &Row) -> PgResult<KeyRecord> {
    let time = |column: usize| -> PgResult<Option<Timestamp>> {
        let millis: Option<i64> = row.try_get(column)?;
        Ok(millis.map(Timestamp::from_millis))
    };
    let limit = |column: usize| -> PgResult<Option<u32>> {
        let limit: Option<i64> = row.try_get(column)?;
        limit.map(u32::try_from).transpose().map_err(invalid_plan)
    };
    let plan = row
        .try_get::<_, &str>(2)?
        .parse::<PlanName>()
        .map_err(invalid_plan)?
        .with(limit(3)?, limit(4)?)
        .map_err(invalid_plan)?;
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

/// The error for a plan that was written by hand and is invalid.
fn invalid_plan(error: impl std::error::Error) -> PgError {
    PgError::Failed(format!("a key's plan cannot be read: {error}"))
}
