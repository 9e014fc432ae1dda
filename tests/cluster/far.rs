//! A PostgreSQL that is far away: every round trip to it takes 400 ms.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{ByHand, Postgres, Process, Proxy, eventually, run};
use serde_json::json;
use tempfile::TempDir;

use crate::PROGRAM;

/// How long a round trip takes.
const ROUND_TRIP: Duration = Duration::from_millis(400);

/// How long a page of keys may take.
const ONE_PAGE: Duration = Duration::from_secs(30);

/// So many keys are more than 80 pages of 500.
const KEYS: u32 = 40_500;

/// How soon after its connections were cut a node reads from the database again.
const BACK: Duration = Duration::from_secs(10);

#[test]
fn a_node_reads_and_writes_a_database_that_is_far_away_and_does_so_again_after_a_cut() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let near = postgres.url();
    let on = |words: &str| {
        let words: Vec<_> = words.split(' ').chain(["--database", &near]).collect();
        run(PROGRAM, folder.path(), &words).exits(0).stdout
    };
    on("migrate");
    let key = on("keys create --name a --plan business");
    let creations = AtomicUsize::new(0);
    for asked in ["", "?connect_timeout=10"] {
        let wire = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
        wire.delay(ROUND_TRIP);
        let far = near.replace(&postgres.port().to_string(), &wire.port().to_string());
        let far = format!("{far}{asked}");
        let node = Process::serve(PROGRAM, folder.path(), &["--database", &far]);
        let client = node.client(Some(key.trim_end()));
        // Not there, so it is asked for each time.
        let reads = || client.get("/v1/pets/999").status == 404;
        eventually(BACK, "the node reads", reads);
        let stored = || {
            let sum = "select coalesce(sum(requests), 0) from usage_by_day";
            postgres
                .psql("postgres", sum)
                .parse::<u32>()
                .expect("a sum")
        };
        let create = || {
            let animal = json!({"name": "Rex", "categoryId": 1});
            let name = format!("{}", creations.fetch_add(1, Ordering::Relaxed));
            let request = client.request("POST", "/v1/pets").json(&animal);
            request.header("Idempotency-Key", &name).send().status
        };
        let rounds = ["the node writes", "the node writes again"];
        for what in rounds.into_iter().filter(|_| asked.is_empty()) {
            eventually(BACK, what, || create() == 201);
            // On a connection that is there, at once.
            assert_eq!(create(), 201);
            let before = stored();
            reads();
            eventually(BACK, "the usage is stored", || stored() > before);
            wire.cut_now();
            eventually(BACK, "the node reads again", reads);
        }
        wire.cut_now();
        eventually(BACK, "the node reads again", reads);
    }
}

#[test]
fn commands_write_to_a_database_that_is_far_away() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let near = postgres.url();
    run(PROGRAM, folder.path(), &["migrate", "--database", &near]).exits(0);
    let wire = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
    wire.delay(ROUND_TRIP);
    let far = near.replace(&postgres.port().to_string(), &wire.port().to_string());
    for words in ["keys create --name a --plan free", "keys set-plan 1 pro"] {
        let words: Vec<_> = words.split(' ').chain(["--database", &far]).collect();
        run(PROGRAM, folder.path(), &words).exits(0);
    }
}

#[test]
fn a_node_reads_all_keys_however_long_they_take_altogether() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let near = postgres.url();
    run(PROGRAM, folder.path(), &["migrate", "--database", &near]).exits(0);
    ByHand::open(&near.parse().expect("a database")).add_keys(KEYS);
    let wire = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
    wire.delay(ROUND_TRIP);
    let far = near.replace(&postgres.port().to_string(), &wire.port().to_string());
    let began = Instant::now();
    let node = Process::serve(PROGRAM, folder.path(), &["--database", &far]);
    let took = began.elapsed();
    assert!(took > ONE_PAGE, "only {took:?}: too few keys to prove it");
    assert_eq!(node.client(None).get("/v1/pets").status, 401);
}
