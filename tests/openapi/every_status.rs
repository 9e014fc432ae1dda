//! Every status that the document lists can be produced.

use std::collections::BTreeSet;
use std::time::Duration;

use animal_store::clock::Timestamp;
use harness::{App, Client, enterprise};
use rusqlite::Connection;
use serde_json::{Value, json};

const CONNECTIONS: usize = 32;

const ORDERS: (&str, &str) = ("listOrders", "/v1/store/orders");

/// Each operation with each status the document lists for it.
fn documented(client: &Client) -> BTreeSet<(String, u16)> {
    let document = client.get("/openapi.json").json();
    let operations = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap().values());
    let operations = operations.filter(|operation| operation.get("operationId").is_some());
    let statuses = |operation: &Value| {
        let name = operation["operationId"].as_str().unwrap().to_owned();
        let statuses: Vec<String> = operation["responses"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        statuses
            .into_iter()
            .map(move |status| (name.clone(), status.parse().unwrap()))
    };
    operations.flat_map(statuses).collect()
}

#[test]
fn every_documented_status_of_every_operation_can_be_produced() {
    let (app, anonymous, key) = App::start_with(|config| {
        config.request_timeout = Duration::from_millis(300);
        config.max_waiting_writes = 1;
    });
    let wanted = documented(&anonymous);
    let mut had = BTreeSet::new();
    let mut note = |operation: &str, status: u16| had.insert((operation.to_owned(), status));
    let pet = json!({"name": "Rex", "categoryId": 1});
    let long = "x".repeat(8_200);

    // Caused by a client.
    let new = || key.request("POST", "/v1/pets");
    note("createPet", key.create(&pet).status);
    note("createPet", key.create(&json!({})).status);
    note("createPet", anonymous.create(&pet).status);
    note(
        "createPet",
        new()
            .header("Content-Type", "application/json")
            .body(vec![b' '; 16_385])
            .send()
            .status,
    );
    note("createPet", new().body("{}").send().status);
    note(
        "createPet",
        key.request("POST", &format!("/v1/pets?{long}"))
            .json(&pet)
            .send()
            .status,
    );
    for name in ["one", "two"] {
        let body = json!({"name": name, "categoryId": 1});
        note(
            "createPet",
            new()
                .header("Idempotency-Key", "k")
                .json(&body)
                .send()
                .status,
        );
    }
    let mut slow = key.connect();
    let head = "POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n";
    slow.send(
        format!(
            "{head}Authorization: Bearer {}\r\n\r\n{{",
            key.key.as_ref().unwrap()
        )
        .as_bytes(),
    );
    note("createPet", slow.response().status);
    for (operation, target) in [("listPets", "/v1/pets"), ("getPet", "/v1/pets/1"), ORDERS] {
        note(operation, key.get(target).status);
        note(operation, anonymous.get(target).status);
        note(operation, key.get(&format!("{target}?{long}")).status);
        let mut incomplete = key.connect();
        incomplete.send(format!("GET {target} HTTP/1.1\r\n").as_bytes());
        note(operation, incomplete.response().status);
    }
    note("listPets", key.get("/v1/pets?limit=0").status);
    note(ORDERS.0, key.get("/v1/store/orders?limit=0").status);
    note("getPet", key.get("/v1/pets/999").status);
    let malformed_host = key.request("GET", "/v1/pets/1").host("a/b").send();
    note("getPet", malformed_host.status);
    for (operation, method, target) in [
        ("listPets", "GET", "/v1/pets"),
        ("createPet", "POST", "/v1/pets"),
        ("getPet", "GET", "/v1/pets/1"),
        (ORDERS.0, "GET", ORDERS.1),
    ] {
        let exhausted = app.key(enterprise(1, 1));
        exhausted.get("/v1/pets");
        note(
            operation,
            exhausted.request(method, target).json(&pet).send().status,
        );
    }
    // A method that a path does not have is documented with each operation of that path.
    for (operation, target) in [
        ("listPets", "/v1/pets"),
        ("createPet", "/v1/pets"),
        ("getPet", "/v1/pets/1"),
        ORDERS,
    ] {
        note(operation, key.request("DELETE", target).send().status);
    }

    // Caused by the disk: writes that wait, too many of them, two of them with one Idempotency-Key.
    let other = Connection::open(app.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waits = || {
        new()
            .header("Idempotency-Key", "waits")
            .json(&pet)
            .send()
            .status
    };
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..6).map(|_| scope.spawn(waits)).collect();
        waiting.into_iter().for_each(|thread| {
            note("createPet", thread.join().unwrap());
        });
    });
    other.execute_batch("ROLLBACK").unwrap();

    // And changes to the database by hand.
    other
        .execute_batch("ALTER TABLE pets RENAME TO gone")
        .unwrap();
    note("listPets", key.get("/v1/pets?limit=7").status);
    other
        .execute_batch("ALTER TABLE orders RENAME TO lost")
        .unwrap();
    note(ORDERS.0, key.get(ORDERS.1).status);
    note("getPet", key.get("/v1/pets/77").status);
    note("createPet", key.create(&pet).status);
    app.clock.set(Timestamp::from_secs(1_922_659_200));
    note("getPet", key.get("/v1/pets/1").status);

    // One connection too many from an address is rejected before its request is read, whatever that is.
    let (_full, _, key) =
        App::start_with(|config| config.max_connections_per_address = CONNECTIONS);
    let open = || {
        let mut connection = key.connect();
        // A response shows that the connection has been accepted.
        key.request("GET", "/livez").send_on(&mut connection);
        connection
    };
    let _all: Vec<_> = (0..CONNECTIONS).map(|_| open()).collect();
    note("listPets", key.get("/v1/pets").status);
    note("getPet", key.get("/v1/pets/1").status);
    note(ORDERS.0, key.get(ORDERS.1).status);

    let missing: Vec<_> = wanted.difference(&had).collect();
    assert!(missing.is_empty(), "documented, but not seen: {missing:?}");
    let unknown: Vec<_> = had.difference(&wanted).collect();
    assert!(unknown.is_empty(), "seen, but not documented: {unknown:?}");
}
