//! The registration of nodes, one at a time: whoever is suspended or killed meanwhile does not block the others.

use std::time::Duration;

use harness::{Postgres, Process, SqlClient, eventually, run};
use tempfile::TempDir;

use crate::PROGRAM;
use crate::format::{Starting, create_format_row};
use crate::locked::signal;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(10);

const FORMAT_ROW: &str = "animal_store_format WHERE id = 1";

const NODES_ROW: &str = "counters WHERE what = 'nodes'";

/// Locks this row until the session ends its transaction.
fn lock(postgres: &Postgres, row: &str) -> SqlClient {
    let sql_client = SqlClient::open(&postgres.url().parse().expect("a database"));
    sql_client.query("BEGIN");
    sql_client.query(&format!("SELECT 1 FROM {row} FOR UPDATE"));
    sql_client
}

/// A node that gets the lock of this row while it is suspended.
fn suspended(postgres: &Postgres, row: &str, message: &str) -> Starting {
    let sql_client = lock(postgres, row);
    let mut node = Starting::on(&postgres.url());
    node.logs(message);
    signal(&node.child, "-STOP");
    sql_client.query("COMMIT");
    node
}

fn registered(postgres: &Postgres) -> String {
    postgres.psql("postgres", "select count(*) from nodes")
}

#[test]
fn a_node_that_is_suspended_when_it_gets_a_lock_does_not_keep_others_from_starting() {
    let postgres = Postgres::start();
    create_format_row(&postgres);
    let message = "waiting for another process, which is migrating the database";
    let _migrating = suspended(&postgres, FORMAT_ROW, message);
    let _second = Starting::on(&postgres.url());
    eventually(TIMEOUT, "another node migrates", || {
        let migrated = "select count(*) from animal_store_format where format > 0";
        postgres.psql("postgres", migrated) == "1"
    });
    eventually(TIMEOUT, "it registers", || registered(&postgres) == "1");

    let _registering = suspended(&postgres, NODES_ROW, "waiting to register this node");
    let _fourth = Starting::on(&postgres.url());
    eventually(TIMEOUT, "another node registers", || {
        registered(&postgres) == "2"
    });
}

#[test]
fn a_registration_that_waits_for_a_lock_fails_after_ten_seconds_and_is_tried_again() {
    let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
    let node = Process::serve(PROGRAM, folder.path(), &["--database", &postgres.url()]);
    let sql_client = lock(&postgres, NODES_ROW);
    postgres.psql("postgres", "delete from nodes");
    let mut killed = Starting::on(&postgres.url());
    killed.logs("waiting to register this node");
    let waiting = || -> u32 {
        let count = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        postgres.psql("postgres", count).parse().expect("a number")
    };
    let failures = || {
        let metrics = harness::Client::new(node.admin, None).get("/metrics").body;
        let metrics = String::from_utf8(metrics).expect("text");
        let name = "animal_store_background_failures_total{task=\"heartbeat\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.expect("a counter").to_owned()
    };
    eventually(TIMEOUT, "both wait", || waiting() == 2);
    drop(killed);
    assert_eq!(failures(), "0");
    eventually(2 * TIMEOUT, "a failure is counted", || failures() == "1");
    // What is left is at most the next attempt of the node that runs.
    eventually(TIMEOUT, "PostgreSQL ends the wait", || waiting() <= 1);
    sql_client.query("COMMIT");
    eventually(2 * TIMEOUT, "the node registers", || {
        registered(&postgres) == "1"
    });
}

#[test]
fn a_node_that_waited_for_a_migration_reads_the_new_format_whatever_the_isolation_level_of_its_role_is()
 {
    let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
    let url = postgres.url();
    run(PROGRAM, folder.path(), &["migrate", "--database", &url]).exits(0);
    for level in ["repeatable read", "serializable"] {
        let set = format!("alter role animals set default_transaction_isolation = '{level}'");
        postgres.psql("postgres", &set);
        let sql_client = lock(&postgres, NODES_ROW);
        sql_client.query("UPDATE animal_store_format SET format = format + 1");
        let line = std::thread::scope(|scope| {
            let starting = scope.spawn(|| {
                let args = ["8", PROGRAM, "serve", "--no-migrate", "--database", &url];
                let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
                run("timeout", folder.path(), &[&args[..], &listen].concat()).fails_with(1)
            });
            let waiting = "select count(*) from pg_locks where not granted";
            eventually(TIMEOUT, "it waits", || {
                postgres.psql("postgres", waiting) == "1"
            });
            sql_client.query("COMMIT");
            starting.join().expect("a line")
        });
        assert!(line.contains("has format"), "{level}: {line}");
        postgres.psql(
            "postgres",
            "update animal_store_format set format = format - 1",
        );
    }
}
