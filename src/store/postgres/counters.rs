//! Counters. The row of a counter stays locked until the commit, so that IDs and revisions ascend in the order of commits: a node
//! that has seen one has missed none before it.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use super::error::{PgError, PgResult};

/// Raises a revision.
pub(super) const RAISE: &str =
    "UPDATE revisions SET number = number + 1 WHERE what = $1 RETURNING number";

/// Raises a revision, and returns it.
pub(super) async fn raise_revision(transaction: &Transaction<'_>, what: &str) -> PgResult<i64> {
    let statement = transaction.prepare_cached(RAISE).await?;
    let row = transaction.query_one(&statement, &[&what]).await?;
    Ok(row.try_get(0)?)
}

/// Takes the next ID for a row of this kind.
pub(super) async fn next_id(transaction: &Transaction<'_>, what: &str) -> PgResult<i64> {
    let row = transaction
        .query_one(
            "UPDATE counters SET number = number + 1 WHERE what = $1 RETURNING number",
            &[&what],
        )
        .await?;
    Ok(row.try_get(0)?)
}

/// A SHA-256 from a column.
pub(super) fn digest(row: &Row, column: usize) -> PgResult<[u8; 32]> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes
        .try_into()
        .map_err(|_| PgError::Failed("a hash must have 32 bytes".into()))
}
