//! Keys in SQL. Every change of a key that a server must apply raises the revision; recording its use does not.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use deadpool_postgres::Transaction;

use super::counters::{RAISE_REVISION, next_id, raise_revision};
use super::engine::{Postgres, read_many};
use super::error::{PgError, PgResult};
use super::pool::{Executor, Lease, SqlValue};
use super::timeout::{
    LONG_TIMEOUT, POLL_TIMEOUT, REQUEST_TIMEOUT, statement_timeout, with_timeout,
};
use super::transaction::{MAX_ATTEMPTS, backoff};
use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId, KeyIdentity, Secret};
use crate::limit::BanChange;
use crate::store::contract::{
    CHUNK_ROWS, ChangedKey, KeyChange, KeyChangeResult, KeyList, KeyListQuery, KeyRecord, NewKey,
    Result, Value,
};
use crate::store::row::{KEY_COLUMNS, SqlRow, plan_columns, read_key};

const UPDATE_BAN: &str = "UPDATE api_keys SET banned_at = $3, banned_until = $4, revision = $2 \
     WHERE id = $1 AND created_at = $6 AND (banned_at = $5::int8 OR ( \
         (unbanned_at IS NULL OR unbanned_at < $3 OR unbanned_at > $4) AND (banned_at IS NULL OR banned_at < $3)))";

static KEY_BY_HASH: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {KEY_COLUMNS} FROM api_keys WHERE hash = $1 OR old_hash = $1")
});

pub(super) fn statements() -> [&'static str; 3] {
    [RAISE_REVISION, UPDATE_BAN, &KEY_BY_HASH]
}

impl Postgres {
    pub(crate) async fn add_key(&self, key: NewKey, secret: &Secret) -> Result<KeyRecord> {
        self.transact(LONG_TIMEOUT, async |transaction| {
            let id = KeyId(next_id(transaction, "api_keys").await?);
            let revision = raise_revision(transaction, "api_keys").await?;
            let (plan, per_minute, per_day) = plan_columns(key.plan);
            let hash = secret.hash();
            let insert = "INSERT INTO api_keys
                 (id, name, plan, per_minute, per_day, prefix, hash, created_at, expires_at, revision)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
            let values: [SqlValue<'_>; 10] = [
                &id.0,
                &key.name,
                &plan,
                &per_minute,
                &per_day,
                &secret.prefix(),
                &&hash.0[..],
                &key.created_at.as_millis(),
                &key.expires_at.map(Timestamp::as_millis),
                &revision,
            ];
            transaction.execute_cached(insert, &values).await?;
            stored(transaction, id).await
        })
        .await
    }

    pub(crate) async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>> {
        self.read(async |lease| by_id(&**lease, id).await).await
    }

    pub(crate) async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<KeyRecord>> {
        self.read(async |lease| {
            let hash = &hash.0[..];
            let rows = lease.query_cached(&KEY_BY_HASH, &[&hash]).await?;
            rows.first().map(read_key).transpose()
        })
        .await
    }

    pub(crate) async fn keys_after(&self, after: KeyId) -> Result<Vec<KeyRecord>> {
        let clause = "WHERE id > $1 ORDER BY id LIMIT $2";
        let reading = read_many(&self.polls, self.poll_timeout(), async |lease| {
            select(&**lease, clause, &[&after.0, &i64::from(CHUNK_ROWS)]).await
        });
        Ok(reading.await?)
    }

    pub(crate) async fn key_list(&self, query: &KeyListQuery) -> Result<KeyList> {
        let (matching, listed) = (query.condition('$'), query.selection('$'));
        let count = format!("SELECT count(*) FROM api_keys {}", matching.text);
        self.read_many(async |lease| {
            let counted = lease
                .query_cached(&count, &values(&matching.params))
                .await?;
            let total = counted.first().map_or(Ok(0), |row| row.int(0))?;
            let keys = select(&**lease, &listed.text, &values(&listed.params)).await?;
            Ok(KeyList { keys, total })
        })
        .await
    }

    pub(crate) async fn keys_since(
        &self,
        revision: i64,
        mut each: impl FnMut(Vec<KeyRecord>),
    ) -> Result<()> {
        let timeout = self.poll_timeout();
        let mut lease = self.polls.borrow_within(timeout).await?;
        let mut read = since(&mut lease, revision, timeout, &mut each).await;
        // Then from the beginning. Reading all keys may take longer than the timeout, which is that of each page.
        let failed_at = Instant::now();
        for attempt in 1..MAX_ATTEMPTS {
            let pause = backoff(attempt);
            if !matches!(read, Err(PgError::Conflict(_))) || failed_at.elapsed() + pause >= timeout
            {
                break;
            }
            tokio::time::sleep(pause).await;
            read = since(&mut lease, revision, timeout, &mut each).await;
        }
        lease.release_after(&read);
        self.last_poll_succeeded
            .store(read.is_ok(), Ordering::Relaxed);
        Ok(read?)
    }

    /// The first poll, and the one after a failure, have more time: the first reads all keys, and one that failed may have had to
    /// sort as many.
    fn poll_timeout(&self) -> Duration {
        match self.last_poll_succeeded.load(Ordering::Relaxed) {
            true => POLL_TIMEOUT,
            false => LONG_TIMEOUT,
        }
    }

    pub(crate) async fn change_key<E>(
        &self,
        id: KeyId,
        decide: impl Fn(&KeyRecord) -> std::result::Result<KeyChange, E>,
    ) -> KeyChangeResult<E> {
        self.transact(LONG_TIMEOUT, async |transaction| {
            // This locks the row of the revision: no other change can come in between.
            let revision = raise_revision(transaction, "api_keys").await?;
            let Some(before) = by_id(transaction, id).await? else {
                return Ok(None);
            };
            let change = match decide(&before) {
                Ok(change) => change,
                Err(rejection) => return Ok(Some(Err(rejection))),
            };
            write(transaction, id, revision, change).await?;
            let after = stored(transaction, id).await?;
            Ok(Some(Ok(ChangedKey { before, after })))
        })
        .await
    }

    pub(crate) async fn record_ban(&self, key: KeyIdentity, change: BanChange) -> Result<()> {
        let BanChange { ban, replaces } = change;
        self.transact(REQUEST_TIMEOUT, async |transaction| {
            let revision = raise_revision(transaction, "api_keys").await?;
            let (started_at, until) = (ban.started_at.as_millis(), ban.until.as_millis());
            let replaced = replaces.map(Timestamp::as_millis);
            let (id, created_at) = (key.id.0, key.created_at.as_millis());
            let values: [SqlValue<'_>; 6] =
                [&id, &revision, &started_at, &until, &replaced, &created_at];
            transaction.execute_cached(UPDATE_BAN, &values).await?;
            Ok(())
        })
        .await
    }
}

fn values(params: &[Value]) -> Vec<SqlValue<'_>> {
    params.iter().map(|param| param as SqlValue<'_>).collect()
}

/// One statement whose rows are fetched a chunk at a time. Separate statements would have to start after a revision, and many
/// keys that are changed by hand may share one. Each chunk has a separate deadline: the total time depends on the number of keys
/// and on the round trip.
async fn since(
    lease: &mut Lease,
    revision: i64,
    timeout: Duration,
    mut each: impl FnMut(Vec<KeyRecord>),
) -> PgResult<()> {
    let beginning = async {
        let transaction = lease.transaction().await?;
        let limit = statement_timeout(timeout).as_millis();
        let limit = format!("SET LOCAL statement_timeout = {limit}");
        transaction.batch_execute(&limit).await?;
        let select =
            format!("SELECT {KEY_COLUMNS} FROM api_keys WHERE revision > $1 ORDER BY revision");
        let statement = transaction.prepare_cached(&select).await?;
        let portal = transaction.bind(&statement, &[&revision]).await?;
        Ok((transaction, portal))
    };
    let (transaction, portal) = with_timeout(timeout, beginning).await?;
    loop {
        let reading = async {
            let rows = transaction.query_portal(&portal, i32::from(CHUNK_ROWS));
            rows.await?
                .iter()
                .map(read_key)
                .collect::<PgResult<Vec<_>>>()
        };
        let chunk = with_timeout(timeout, reading).await?;
        let is_last = chunk.len() < usize::from(CHUNK_ROWS);
        each(chunk);
        if is_last {
            break;
        }
    }
    with_timeout(timeout, async { Ok(transaction.commit().await?) }).await
}

async fn write(
    transaction: &Transaction<'_>,
    id: KeyId,
    revision: i64,
    change: KeyChange,
) -> PgResult<u64> {
    let update = async |assignments: &str, values: &[SqlValue<'_>]| {
        let values = [&[&id.0, &revision as SqlValue<'_>], values].concat();
        let update = format!("UPDATE api_keys SET revision = $2, {assignments}");
        transaction.execute_cached(&update, &values).await
    };
    match change {
        KeyChange::Plan(plan) => {
            let assignments = "plan = $3, per_minute = $4, per_day = $5 WHERE id = $1";
            let (plan, per_minute, per_day) = plan_columns(plan);
            update(assignments, &[&plan, &per_minute, &per_day]).await
        }
        KeyChange::Secret {
            hash,
            prefix,
            old_until,
        } => {
            let assignments =
                "old_hash = hash, old_until = $5, hash = $3, prefix = $4 WHERE id = $1";
            let (hash, old_until) = (&hash.0[..], old_until.as_millis());
            update(assignments, &[&hash, &prefix, &old_until]).await
        }
        KeyChange::Revoke(now) => {
            let assignments = "revoked_at = $3 WHERE id = $1 AND revoked_at IS NULL";
            update(assignments, &[&now.as_millis()]).await
        }
        KeyChange::Unban(now) => {
            // No earlier than the ban, which another machine's clock may have dated, and later than every unban before.
            let assignments = "unbanned_at = greatest($3::int8, coalesce(banned_at, 0), coalesce(unbanned_at, 0) + 1), \
                       banned_at = NULL, banned_until = NULL WHERE id = $1";
            update(assignments, &[&now.as_millis()]).await
        }
    }
}

/// A key that was written in this transaction.
async fn stored(transaction: &Transaction<'_>, id: KeyId) -> PgResult<KeyRecord> {
    let missing = || PgError::Failed("a key that was written is not there".into());
    by_id(transaction, id).await?.ok_or_else(missing)
}

async fn by_id(session: &impl Executor, id: KeyId) -> PgResult<Option<KeyRecord>> {
    Ok(select(session, "WHERE id = $1", &[&id.0]).await?.pop())
}

async fn select(
    session: &impl Executor,
    clause: &str,
    values: &[SqlValue<'_>],
) -> PgResult<Vec<KeyRecord>> {
    let sql = format!("SELECT {KEY_COLUMNS} FROM api_keys {clause}");
    let rows = session.query_cached(&sql, values).await?;
    rows.iter().map(read_key).collect()
}
