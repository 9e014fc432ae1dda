//! Nodes start and stop: what was acknowledged stays, and a client that retries once, on another node, notices nothing.

use std::sync::PoisonError;
use std::time::Duration;

use harness::{Postgres, Process, eventually, run};
use tempfile::TempDir;

use crate::{Cluster, Load, NODES, PROGRAM, lost_and_duplicated, rex};

/// Clients that create at once.
const CLIENTS: usize = 12;

/// How often a node is killed.
const KILLS: usize = 9;

#[test]
fn nodes_killed_in_turn_under_load_lose_nothing_and_one_retry_elsewhere_always_succeeds() {
    let mut cluster = Cluster::start();
    let key = cluster.large_key();
    let load = Load::new(cluster.clients(&key));
    let made = load.during(CLIENTS, || {
        for kill in 0..KILLS {
            let node = kill % NODES;
            std::thread::sleep(Duration::from_millis(400));
            cluster.nodes[node].kill();
            // Its clients temporarily cannot connect.
            std::thread::sleep(Duration::from_millis(100));
            let started = cluster.start_node();
            let client = started.client(Some(&key));
            eventually(Duration::from_secs(10), "ready", || {
                client.get("/readyz").status == 200
            });
            cluster.nodes[node] = started;
            load.nodes.lock().unwrap_or_else(PoisonError::into_inner)[node] = client;
            // Those that found it dead retry on the node that is killed next.
            load.settle();
        }
    });
    let (lost, duplicated) = lost_and_duplicated(&cluster.postgres, &made);
    let retried = made.iter().filter(|made| !made.failures.is_empty()).count();
    let replayed = made.iter().filter(|made| made.replayed).count();
    let failed: Vec<_> = made.iter().filter(|made| made.failures.len() > 1).collect();
    let figures = format!(
        "{} animals, {retried} retried, {replayed} replayed",
        made.len()
    );
    println!("{figures}");
    assert!(
        lost.is_empty() && duplicated.is_empty(),
        "{figures}, lost: {lost:#?}, duplicated: {duplicated:#?}"
    );
    let failures: Vec<_> = failed.iter().map(|made| &made.failures).collect();
    assert!(failed.is_empty(), "{figures}, {failures:#?}");
    assert!(
        retried >= KILLS && made.len() > 50 * KILLS,
        "hardly any load: {figures}"
    );
}

#[test]
fn nodes_that_start_at_once_on_an_empty_database_all_come_up() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    for round in 0..5 {
        let name = format!("empty{round}");
        let database = postgres.create_database(&name);
        let args = ["--no-first-key", "--database", &database];
        let nodes: Vec<_> = std::thread::scope(|scope| {
            let start = || Process::serve(PROGRAM, folder.path(), &args);
            let starting: Vec<_> = (0..NODES).map(|_| scope.spawn(start)).collect();
            let started = starting.into_iter().map(|node| node.join());
            started.map(|node| node.expect("a node")).collect()
        });
        for node in &nodes {
            let response = node.client(None).get("/readyz");
            assert_eq!(response.status, 200, "round {round}: {response}");
        }
        let formats = "select count(*), min(format) > 0 from animal_store_format";
        assert_eq!(postgres.psql(&name, formats), "1|t", "round {round}");
    }
}

#[test]
fn a_database_of_a_newer_format_is_rejected_in_one_line_and_left_as_it_is() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let args = ["keys", "list", "--database", &postgres.url()];
    let migrate = ["migrate", "--database", &postgres.url()];
    run(PROGRAM, folder.path(), &migrate).exits(0);
    postgres.psql("postgres", "update animal_store_format set format = 99");
    let line = run(PROGRAM, folder.path(), &args).fails_with(1);
    assert!(line.contains("format 99"), "{line}");
    let format = postgres.psql("postgres", "select format from animal_store_format");
    assert_eq!(format, "99");
}

/// Databases that are compatible with PostgreSQL roll back transactions (40001) where PostgreSQL itself would wait. If it does the
/// same, clients must not notice.
#[test]
fn a_transaction_that_is_rolled_back_because_of_others_is_retried() {
    let mut cluster = Cluster::start();
    let serializable = "alter database postgres set default_transaction_isolation = 'serializable'";
    cluster.postgres.psql("postgres", serializable);
    cluster.nodes = (0..NODES).map(|_| cluster.start_node()).collect();
    let nodes = cluster.clients(&cluster.large_key());
    let rolled_back = || -> i64 {
        let count = "select xact_rollback from pg_stat_database where datname = 'postgres'";
        let count = cluster.postgres.psql("postgres", count);
        count.parse().expect("a number")
    };
    let before = rolled_back();
    std::thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(move || {
                for _ in 0..50 {
                    let response = node.create(&rex());
                    assert_eq!(response.status, 201, "{response}");
                }
            });
        }
    });
    // It counts with a delay.
    eventually(
        Duration::from_secs(5),
        "a transaction was rolled back",
        || rolled_back() > before,
    );
}
