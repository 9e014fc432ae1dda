//! The counters of IDs and of revisions. The row of a counter stays locked until the commit, so that IDs and revisions ascend in the order of commits: a node
//! that has seen one has missed none before it.

use deadpool_postgres::Transaction;

use super::error::PgResult;

pub(super) const RAISE_REVISION: &str =
    "UPDATE revisions SET number = number + 1 WHERE what = $1 RETURNING number";

const NEXT_ID: &str = "UPDATE counters SET number = number + 1 WHERE what = $1 RETURNING number";

/// Raises the revision of a table, and returns it.
pub(super) async fn raise_revision(transaction: &Transaction<'_>, table: &str) -> PgResult<i64> {
    number(transaction, RAISE_REVISION, table).await
}

pub(super) async fn next_id(transaction: &Transaction<'_>, table: &str) -> PgResult<i64> {
    number(transaction, NEXT_ID, table).await
}

async fn number(transaction: &Transaction<'_>, sql: &str, table: &str) -> PgResult<i64> {
    let statement = transaction.prepare_cached(sql).await?;
    let row = transaction.query_one(&statement, &[&table]).await?;
    Ok(row.try_get(0)?)
}
