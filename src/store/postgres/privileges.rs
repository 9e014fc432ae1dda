//! The privileges of the PostgreSQL role of a server. Without one of them it would start, and fail every creation.

use super::error::{PgError, PgResult};
use super::pool::Pool;

/// What the statements of a server need on each table. `FOR UPDATE` needs UPDATE, too. A command that lacks a privilege fails by
/// itself, so what only commands need is not listed.
const NEEDED: [(&str, &[&str]); 10] = [
    ("deployment", &["SELECT"]),
    ("counters", &["SELECT", "UPDATE"]),
    ("revisions", &["SELECT", "UPDATE"]),
    ("pets", &["SELECT", "INSERT"]),
    ("orders", &["SELECT"]),
    ("api_keys", &["SELECT", "UPDATE"]),
    ("idempotency", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("usage_by_day", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("use_batches", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("nodes", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
];

const MISSING: &str = "SELECT current_user::text, needed.object, needed.privilege
     FROM unnest($1::text[], $2::text[]) AS needed (object, privilege)
     WHERE NOT has_table_privilege(needed.object, needed.privilege)";

/// Fails with the statements that grant what is missing.
pub(super) async fn check(pool: &Pool) -> PgResult<()> {
    let each = |(table, privileges): &(&'static str, &'static [&str])| {
        let table = *table;
        privileges.iter().map(move |privilege| (table, *privilege))
    };
    let (tables, privileges): (Vec<_>, Vec<_>) = NEEDED.iter().flat_map(each).unzip();
    let lease = pool.borrow().await?;
    let rows = lease.query(MISSING, &[&tables, &privileges]).await?;
    lease.release();
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let role = first.try_get::<_, String>(0)?.replace('"', "\"\"");
    let grant = |row: &tokio_postgres::Row| {
        let (table, privilege): (String, String) = (row.try_get(1)?, row.try_get(2)?);
        Ok(format!("GRANT {privilege} ON {table} TO \"{role}\""))
    };
    let grants: PgResult<Vec<String>> = rows.iter().map(grant).collect();
    let grants = grants?.join("; ");
    Err(PgError::Failed(format!(
        "the role lacks privileges: run {grants}"
    )))
}
