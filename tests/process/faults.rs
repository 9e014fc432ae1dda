//! What happens when the server's own code fails: a panic in a request, the death of the writer, a thread that hangs.

use std::time::Duration;

use harness::{Client, Connection, Process};
use serde_json::json;
use tempfile::TempDir;

use crate::{PROGRAM, large_key, logged, run};

fn serve(folder: &TempDir, fault: &str) -> (Process, Client) {
    let key = large_key(folder.path());
    let vars = [("ANIMAL_STORE_FAULT", fault)];
    let process = Process::serve_with(PROGRAM, folder.path(), &["--no-first-key"], &vars);
    let client = process.client(Some(&key));
    (process, client)
}

/// Sends a request that blocks the thread of its worker, if the server has that fault.
pub(crate) fn hang_a_worker(client: &Client) -> Connection {
    let key = client.key.as_deref().expect("a key");
    let head = format!(
        "GET /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nX-Fault: hang\r\n\r\n"
    );
    let mut connection = client.connect();
    connection.send(head.as_bytes());
    connection
}

#[test]
fn a_panic_is_a_500_for_its_own_request_alone_and_only_the_log_has_the_cause() {
    let folder = TempDir::new().expect("a folder");
    let (process, client) = serve(&folder, "panic-in-request");
    let mut other = client.connect();
    let ask = |connection: &mut _| client.request("GET", "/v1/pets").send_on(connection);
    let before = ask(&mut other);
    let mut connection = client.connect();
    for id in ["first-panic", "second-panic"] {
        let request = client.request("GET", "/v1/pets").header("X-Fault", "panic");
        let response = request.header("X-Request-Id", id).send_on(&mut connection);
        response.is_error(500, "internal_error");
        assert!(
            !response.to_string().contains("PanicInRequest"),
            "{response}"
        );
        assert_eq!(response.rate().0, before.rate().0);
        assert_eq!(response.header("x-request-id"), Some(id));
        let log = logged(&process, &["ERROR", id, "PanicInRequest"]);
        assert!(
            log.contains("operation=listPets") || log.contains("operation=\"listPets\""),
            "{log}"
        );
        assert_eq!(
            ask(&mut connection).status,
            200,
            "the same connection stays open"
        );
        assert_eq!(ask(&mut other).status, 200, "others go on");
    }
    let made = client.create(&json!({"name": "Rex", "categoryId": 1}));
    assert_eq!(made.status, 201);
    let counted = before.rate().1 - made.rate().1;
    assert_eq!(counted, 7, "a request that panics counts as any other");
}

#[test]
fn the_death_of_a_thread_that_serves_ends_the_process_with_exit_1_and_the_cause() {
    let folder = TempDir::new().expect("a folder");
    let (mut process, client) = serve(&folder, "worker-dies");
    let _connection = client.connect();
    assert_eq!(process.ends_within(Duration::from_secs(5)), Some(1));
    let log = process.log();
    assert!(log.contains("the thread http-"), "{log}");
}

#[test]
fn a_worker_that_hangs_delays_a_shutdown_by_seconds_and_the_last_usage_is_stored() {
    let folder = TempDir::new().expect("a folder");
    let (mut process, client) = serve(&folder, "worker-hangs");
    let _connection = hang_a_worker(&client);
    logged(&process, &["fault WorkerHangs"]);
    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(15)), Some(1));
    let log = process.log();
    assert!(
        log.contains("threads have not ended threads=\"http-"),
        "{log}"
    );
    let last = log.lines().last();
    assert_eq!(
        last,
        Some("animal-store: threads have not ended; see the log")
    );
    let usage = run(folder.path(), &[], &["keys", "usage", "--json"]).exits(0);
    assert!(usage.stdout.contains("\"requests\":1,"), "{usage:?}");
}

#[test]
fn the_death_of_the_writer_ends_the_process_with_exit_1_and_the_cause() {
    let folder = TempDir::new().expect("a folder");
    let (mut process, client) = serve(&folder, "writer-dies");
    client.create_many(3);
    let mut connection = client.connect();
    let request = client
        .request("POST", "/v1/pets")
        .json(&json!({"name": "writer, die", "categoryId": 1}));
    if let Ok(response) = request.try_send_on(&mut connection) {
        response.is_error(503, "unavailable");
        assert!(!response.to_string().contains("writer"), "{response}");
    }
    assert_eq!(process.ends_within(Duration::from_secs(3)), Some(1));
    let log = logged(&process, &["animal-store: ", "writer has stopped"]);
    assert!(log.contains("fault WriterDies"), "{log}");
    let last = log.lines().last().expect("a line");
    assert!(
        last.starts_with("animal-store: the writer has stopped"),
        "{log}"
    );

    // What was acknowledged is stored, and the animal that killed it is not.
    let process = Process::serve_with(PROGRAM, folder.path(), &[], &[]);
    let list = process.client(client.key.as_deref()).get("/v1/pets");
    assert_eq!(list.ids(), [1, 2, 3]);
}
