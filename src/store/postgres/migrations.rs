//! The formats of the database, each made from the one before. The one row of `animal_store_format` says which one it has;
//! that row is also the lock between nodes that start at once.

use super::connect::Connections;
use super::{Answer, Trouble, transact};

/// One script for each format, the first makes format 1.
const SCRIPTS: [&str; 2] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_use_batches.sql"),
];

/// The format this version writes.
const KNOWN: i64 = SCRIPTS.len() as i64;

/// How often the first step is tried: two nodes that create the same table at once get into each other's way.
const TRIES: usize = 20;

/// Brings the database to the present format. Says whether it was empty before.
pub(super) async fn run(connections: &Connections) -> Answer<bool> {
    let mut tries = 1;
    while let Err(trouble) = make_lock(connections).await {
        let passing = matches!(trouble, Trouble::Again(_) | Trouble::Failed(_));
        if !passing || tries == TRIES {
            return Err(trouble);
        }
        tries += 1;
        tokio::time::sleep(super::pause(3)).await;
    }
    transact(connections, async |transaction| {
        let row = transaction
            .query_one("SELECT format FROM animal_store_format WHERE id = 1 FOR UPDATE", &[])
            .await?;
        let format: i64 = row.try_get(0)?;
        if format > KNOWN {
            return Err(Trouble::Failed(format!(
                "the database has format {format}, and this version knows {KNOWN} at most: use a newer one"
            )));
        }
        if format < KNOWN {
            // Making an index may take long.
            transaction
                .batch_execute("SET LOCAL statement_timeout = 0")
                .await?;
            for script in SCRIPTS.iter().skip(usize::try_from(format).unwrap_or(0)) {
                transaction.batch_execute(script).await?;
            }
            transaction
                .execute("UPDATE animal_store_format SET format = $1 WHERE id = 1", &[&KNOWN])
                .await?;
        }
        Ok(format == 0)
    })
    .await
}

async fn make_lock(connections: &Connections) -> Answer<()> {
    let lease = connections.borrow().await?;
    let there: Option<String> = lease
        .query_one("SELECT to_regclass('animal_store_format')::text", &[])
        .await?
        .try_get(0)?;
    if there.is_none() {
        lease
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS animal_store_format
                     (id BIGINT PRIMARY KEY CHECK (id = 1), format BIGINT NOT NULL)",
            )
            .await?;
    }
    lease
        .batch_execute("INSERT INTO animal_store_format VALUES (1, 0) ON CONFLICT (id) DO NOTHING")
        .await?;
    lease.give_back();
    Ok(())
}
