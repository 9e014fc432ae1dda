//! What happens when the server's own code fails: a panic in a request, the death of the writer.

use std::time::Duration;

use harness::{Client, Process};
use serde_json::json;
use tempfile::TempDir;

use crate::{PROGRAM, large_key, logged};

fn serve(folder: &TempDir, fault: &str) -> (Process, Client) {
    let key = large_key(folder.path());
    let vars = [("ANIMAL_STORE_FAULT", fault)];
    let process = Process::serve_with(PROGRAM, folder.path(), &["--no-first-key"], &vars);
    let client = process.client(Some(&key));
    (process, client)
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
