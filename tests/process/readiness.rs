//! Whether a server is ready, while it shuts down and while its data is busy.

use std::time::{Duration, Instant};

use harness::{Connection, Process, eventually};

use crate::{PROGRAM, folder, large_key, logged};

#[test]
fn not_ready_during_a_drain_is_not_logged_as_an_error() {
    let folder = folder();
    let mut server = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    let mut connection = Connection::new(server.address);
    connection.send(b"GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n");
    // Accepted before the server shuts down.
    let metrics = harness::Client::new(server.admin, None);
    eventually(Duration::from_secs(5), "the connection", || {
        let page = String::from_utf8(metrics.get("/metrics").body).expect("text");
        page.contains("animal_store_open_connections 1\n")
    });
    server.signal("TERM");
    let mut log = logged(&server, &["shutting down"]);
    connection.send(b"\r\n");
    let response = connection.response();
    response.is_error(503, "unavailable");
    assert_eq!(
        response.message(),
        "Not ready: the server is shutting down."
    );
    assert_eq!(server.ends_within(Duration::from_secs(15)), Some(0));
    log.push_str(&server.log());
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}

#[test]
fn a_background_task_that_fails_is_logged_once_when_that_begins_and_once_when_it_ends() {
    let folder = folder();
    let key = large_key(folder.path());
    let server = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    let file = rusqlite::Connection::open(folder.path().join("animal-store.db")).expect("a file");
    let rename = |from: &str, to: &str| {
        file.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"))
            .expect("a table");
    };
    rename("usage_by_day", "hidden");
    // Its usage cannot be stored.
    assert_eq!(server.client(Some(&key)).get("/v1/pets").status, 200);
    let task = "task=\"flush\"";
    let mut log = logged(&server, &["WARN", "background task failed", task]);
    std::thread::sleep(Duration::from_secs(3));
    rename("hidden", "usage_by_day");
    log += &logged(&server, &["INFO", "background task succeeds again", task]);
    assert_eq!(log.matches("background task").count(), 2, "{log}");
}

#[test]
fn the_checks_are_listed_and_readyz_takes_less_than_twice_as_long_as_livez() {
    let folder = folder();
    let server = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    let client = server.client(None);
    let checks = client.get("/readyz?verbose").json();
    assert_eq!(
        checks,
        serde_json::json!({
            "status": "ready",
            "checks": {"store": "ready", "writer": "ready", "keys": "ready"}
        })
    );
    let mut connection = client.connect();
    let mut best = |path: &str| {
        let times = (0..300).map(|_| {
            let began = Instant::now();
            let response = client.request("GET", path).send_on(&mut connection);
            assert_eq!(response.status, 200);
            began.elapsed()
        });
        times.min().expect("some")
    };
    let (live, ready) = (best("/livez"), best("/readyz"));
    assert!(ready < live * 2, "{ready:?}, and {live:?} for /livez");
}
