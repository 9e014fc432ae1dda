//! The formats of the file, each made from the previous one. `PRAGMA user_version` holds the current one.

use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::with_context;
use crate::fault::Fault;

/// `PRAGMA application_id` of these files: "AnSt".
pub(super) const APPLICATION_ID: i32 = 0x416e_5374;

/// One script for each format, starting with format 1.
const SCRIPTS: [&str; 5] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_orders.sql"),
    include_str!("migrations/0003_use_batches.sql"),
    include_str!("migrations/0004_deployment.sql"),
    include_str!("migrations/0005_orders_stay.sql"),
];

pub(crate) const CURRENT_FORMAT: i32 = SCRIPTS.len() as i32;

/// The format of a file; none if it is empty.
pub(super) fn format(connection: &Connection) -> rusqlite::Result<Option<i32>> {
    let number = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(Some(number).filter(|number| *number != 0))
}

/// Migrates the file to the current format in one transaction, and returns the previous one. After an error the connection is not
/// used again.
pub(super) fn run(connection: &mut Connection) -> rusqlite::Result<Option<i32>> {
    if format(connection)? == Some(CURRENT_FORMAT) {
        return Ok(Some(CURRENT_FORMAT));
    }
    // A script may replace a table. Views, triggers and foreign keys of an operator that refer to it by its name stay as they are.
    connection.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON")?;
    // Two processes may start at the same time: the second waits here, and then finds nothing left to do.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = format(&transaction)?;
    if Fault::SlowMigration.is_enabled() {
        std::thread::sleep(Duration::from_secs(8));
    }
    migrate(&transaction, before.unwrap_or(0)).map_err(|error| match before {
        Some(before) => {
            let failed = format!("cannot migrate it from format {before} to {CURRENT_FORMAT}");
            with_context(&failed, error)
        }
        None => error,
    })?;
    transaction.commit()?;
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA legacy_alter_table = OFF")?;
    Ok(before)
}

fn migrate(transaction: &Transaction<'_>, before: i32) -> rusqlite::Result<()> {
    let done = usize::try_from(before).unwrap_or(0);
    if done >= SCRIPTS.len() {
        return Ok(());
    }
    // The indexes and triggers of a table are dropped with it. The scripts create ours again; those of an operator are created again
    // below.
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL";
    let mut query = transaction.prepare(sql)?;
    let rows = query.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let present: Vec<(String, String)> = rows.collect::<rusqlite::Result<_>>()?;
    for script in SCRIPTS.iter().skip(done) {
        transaction.execute_batch(script)?;
    }
    let mut exists = transaction.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1")?;
    for (name, sql) in present {
        if !exists.exists([name])? {
            transaction.execute_batch(&sql)?;
        }
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", CURRENT_FORMAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(connection: &Connection) -> Vec<(String, Option<String>)> {
        let sql = "SELECT name, sql FROM sqlite_schema ORDER BY name";
        let mut query = connection.prepare(sql).unwrap();
        let rows = query.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn a_file_of_every_older_format_is_migrated_to_the_current_one_with_its_data() {
        let mut deployments = std::collections::HashSet::new();
        let mut new = Connection::open_in_memory().unwrap();
        assert_eq!(run(&mut new).unwrap(), None);
        for format in 1..CURRENT_FORMAT {
            let mut connection = Connection::open_in_memory().unwrap();
            for script in &SCRIPTS[..usize::try_from(format).unwrap()] {
                connection.execute_batch(script).unwrap();
            }
            connection
                .pragma_update(None, "user_version", format)
                .unwrap();
            let insert = "INSERT INTO pets (name, category_id, status) VALUES ('Rex', 1, 'sold')";
            connection.execute_batch(insert).unwrap();
            if format >= 2 {
                // The last order was deleted by hand, and its ID is not given out again.
                let orders = "INSERT INTO orders (pet_id, status, placed_at) VALUES (1, 'open', 7);
                              INSERT INTO orders (id, pet_id, status, placed_at, ended_at)
                              VALUES (9, 1, 'complete', 7, 8);
                              DELETE FROM orders WHERE id = 9";
                connection.execute_batch(orders).unwrap();
            }
            assert_eq!(run(&mut connection).unwrap(), Some(format));
            assert_eq!(schema(&connection), schema(&new));
            let name: String = connection
                .query_row("SELECT name FROM pets", (), |row| row.get(0))
                .unwrap();
            let now: i32 = connection
                .pragma_query_value(None, "user_version", |row| row.get(0))
                .unwrap();
            assert_eq!((name.as_str(), now), ("Rex", CURRENT_FORMAT));
            let order = "INSERT INTO orders (pet_id, status, placed_at) VALUES (2, 'open', 7)";
            connection.execute_batch(order).unwrap();
            let mut orders = connection
                .prepare("SELECT id FROM orders ORDER BY id")
                .unwrap();
            let ids: Vec<i64> = orders
                .query_map((), |row| row.get(0))
                .unwrap()
                .collect::<rusqlite::Result<_>>()
                .unwrap();
            drop(orders);
            assert_eq!(ids, if format >= 2 { vec![1, 10] } else { vec![1] });
            let deployment: String = connection
                .query_row("SELECT id FROM deployment", (), |row| row.get(0))
                .unwrap();
            assert_eq!(deployment.len(), 16);
            assert!(deployments.insert(deployment), "each has its own");
        }
    }
}
