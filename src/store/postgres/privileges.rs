//! Checks at startup that the PostgreSQL role has every privilege that the API and the background tasks need: otherwise a
//! missing one would show only when creations fail. For a command, only the privileges that every command needs are checked.

use super::error::{PgError, PgResult};
use super::pool::Pool;
use crate::store::contract::Mode;

/// What the statements of the API and of the background tasks need on each table. `FOR UPDATE` needs UPDATE, too. A command,
/// or a change by the admin API, that lacks a privilege fails by itself, so what only those need is not listed.
const NEEDED_PRIVILEGES: [(&str, &[&str]); 11] = [
    ("animal_store_format", &["SELECT"]),
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

/// What every command reads: the format, and with the revisions the clock of the database.
const TABLES_READ_BY_COMMANDS: [&str; 2] = ["animal_store_format", "revisions"];

const MISSING_PRIVILEGES: &str = "SELECT current_user::text, needed.object, needed.privilege
     FROM unnest($1::text[], $2::text[]) AS needed (object, privilege)
     WHERE to_regclass(needed.object) IS NOT NULL AND NOT has_table_privilege(needed.object, needed.privilege)";

/// Why the role does not find the tables, if some schema has them. No row if this process creates a missing database ($1) and has a
/// schema to create new tables in.
const HIDDEN_TABLES: &str = "SELECT CASE WHEN has_schema_privilege(n.oid, 'USAGE')
         THEN format('the tables are in the schema %1$I, which is not in the search_path: run ALTER ROLE %2$I SET search_path = %1$I',
                     nspname, current_user)
         ELSE format('the role lacks privileges: run GRANT USAGE ON SCHEMA %I TO %I', nspname, current_user) END
     FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
     WHERE relname = 'animal_store_format' AND relkind = 'r' AND to_regclass('animal_store_format') IS NULL
         AND NOT ($1 AND current_schema() IS NOT NULL)
     ORDER BY nspname LIMIT 1";

/// Fails if the tables are in a schema where the role does not find them.
pub(super) async fn check_schema(pool: &Pool, mode: Mode) -> PgResult<()> {
    let lease = pool.borrow().await?;
    let hidden = lease.query_opt(HIDDEN_TABLES, &[&mode.creates()]).await?;
    lease.release();
    match hidden {
        Some(row) => Err(PgError::Failed(row.try_get(0)?)),
        None => Ok(()),
    }
}

/// Fails with the statements that grant what is missing. A table that is not there yet is created by a migration.
pub(super) async fn check(pool: &Pool, mode: Mode) -> PgResult<()> {
    let each = |(table, privileges): &(&'static str, &'static [&str])| {
        let table = *table;
        privileges.iter().map(move |privilege| (table, *privilege))
    };
    let is_needed = |(table, privilege): &(&str, &str)| {
        mode.serves() || (TABLES_READ_BY_COMMANDS.contains(table) && *privilege == "SELECT")
    };
    let needed = NEEDED_PRIVILEGES.iter().flat_map(each).filter(is_needed);
    let (tables, privileges): (Vec<_>, Vec<_>) = needed.unzip();
    let lease = pool.borrow().await?;
    let rows = lease
        .query(MISSING_PRIVILEGES, &[&tables, &privileges])
        .await?;
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
