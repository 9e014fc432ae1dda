//! `Idempotency-Key`: a creation can be retried without creating a second animal.

use std::sync::mpsc;
use std::time::Duration;

use animal_store::key::KeyId;
use animal_store::pet::NewPet;
use animal_store::store::{CreationOutcome, IdempotencyRecord};
use harness::{App, Client, Response, START, enterprise, eventually};
use serde_json::{Value, json};

use crate::rex;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const A_MILLISECOND: Duration = Duration::from_millis(1);

fn create(client: &Client, key: &str, body: &Value) -> Response {
    let request = client.request("POST", "/v1/pets").json(body);
    request.header("Idempotency-Key", key).send()
}

/// Panics unless the second response repeats the first, and is marked as a replay.
#[track_caller]
fn is_replay(first: &Response, again: &Response) {
    assert_eq!((first.status, again.status), (201, 201), "{again}");
    assert_eq!(first.body, again.body);
    for name in ["location", "content-type", "content-length"] {
        assert_eq!(first.header(name), again.header(name), "{name}");
    }
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
}

#[test]
fn the_same_key_and_body_repeat_the_first_response_and_create_no_second_animal() {
    let (_app, _, key) = App::start();
    let first = create(&key, "order-1", &rex());
    key.create_many(2);
    for _ in 0..3 {
        is_replay(&first, &create(&key, "order-1", &rex()));
    }
    assert_eq!(key.get("/v1/pets").ids(), [1, 2, 3]);
}

#[test]
fn another_key_or_none_creates_another_animal() {
    let (_app, _, key) = App::start();
    create(&key, "a", &rex());
    for other in ["A", "a.", "aa"] {
        let made = create(&key, other, &rex());
        assert_eq!(
            (made.status, made.header("idempotent-replayed")),
            (201, None)
        );
    }
    key.create(&rex());
    assert_eq!(key.get("/v1/pets").ids(), [1, 2, 3, 4, 5]);
}

#[test]
fn the_same_key_with_another_body_is_422_and_creates_nothing() {
    let (_app, _, key) = App::start();
    let first = create(&key, "a", &rex());
    for other in [
        json!({"name": "Mia", "categoryId": 7, "status": "pending"}),
        json!({"name": "Rex", "categoryId": 8, "status": "pending"}),
        json!({"name": "Rex", "categoryId": 7}),
    ] {
        create(&key, "a", &other).is_error(422, "idempotency_mismatch");
    }
    is_replay(&first, &create(&key, "a", &rex()));
    assert_eq!(key.get("/v1/pets").ids(), [1]);
}

#[test]
fn the_same_animal_is_the_same_however_it_is_written() {
    let (_app, _, key) = App::start();
    let send = |token: &str, body: &str| {
        let request = key.request("POST", "/v1/pets").body(body);
        let request = request.header("Content-Type", "application/json");
        request.header("Idempotency-Key", token).send()
    };
    let first = send("a", r#"{"name":"Rex","categoryId":7,"status":"available"}"#);
    for same in [
        " {\n \"name\" : \"Rex\", \"categoryId\" : 7, \"status\" : \"available\" }\n",
        r#"{"status":"available","categoryId":7,"name":"Rex"}"#,
        r#"{"name":"\u0052ex","categoryId":7.0}"#,
        r#"{"name":"Rex","categoryId":70e-1,"id":9,"x":[1]}"#,
    ] {
        is_replay(&first, &send("a", same));
    }
    // Different animals stay different even if their fields, joined together, give the same text.
    for (token, one, other) in [
        (
            "b",
            r#"{"name":"1sold","categoryId":1}"#,
            r#"{"name":"sold","categoryId":11}"#,
        ),
        (
            "c",
            r#"{"name":"a","categoryId":1,"status":"sold"}"#,
            r#"{"name":"a","categoryId":-1,"status":"sold"}"#,
        ),
        (
            "d",
            r#"{"name":"a","categoryId":1}"#,
            r#"{"name":"a ","categoryId":1}"#,
        ),
    ] {
        assert_eq!(send(token, one).status, 201);
        send(token, other).is_error(422, "idempotency_mismatch");
    }
}

#[test]
fn the_same_key_with_an_invalid_body_is_400() {
    let (_app, _, key) = App::start();
    let first = create(&key, "a", &rex());
    create(&key, "a", &json!({})).is_error(400, "invalid_body");
    is_replay(&first, &create(&key, "a", &rex()));
}

#[test]
fn keys_are_separate_for_each_api_key() {
    let (app, _, key) = App::start();
    let other = app.key(enterprise(100, 100));
    let (mine, theirs) = (create(&key, "a", &rex()), create(&other, "a", &rex()));
    assert_eq!(
        (mine.json()["id"].as_i64(), theirs.json()["id"].as_i64()),
        (Some(1), Some(2))
    );
    assert_eq!(theirs.header("idempotent-replayed"), None);
    is_replay(&mine, &create(&key, "a", &rex()));
    is_replay(&theirs, &create(&other, "a", &rex()));
}

#[test]
fn keys_are_kept_for_24_hours_and_then_forgotten() {
    let (app, _, key) = App::start();
    let first = create(&key, "a", &rex());
    app.clock.advance(DAY - A_MILLISECOND);
    is_replay(&first, &create(&key, "a", &rex()));
    create(&key, "a", &json!({"name": "b", "categoryId": 1})).is_error(422, "idempotency_mismatch");
    app.clock.advance(A_MILLISECOND);
    let next = create(&key, "a", &json!({"name": "b", "categoryId": 1}));
    assert_eq!(
        (next.status, next.header("idempotent-replayed")),
        (201, None)
    );
    assert_eq!(next.json()["id"], 2);
}

#[test]
fn a_replay_does_not_prolong_the_24_hours_and_a_new_animal_restarts_them() {
    let (app, _, key) = App::start();
    let first = create(&key, "a", &rex());
    app.clock.advance(DAY / 2);
    is_replay(&first, &create(&key, "a", &rex()));
    app.clock.advance(DAY / 2);
    let second = create(&key, "a", &rex());
    assert_eq!(second.json()["id"], 2);
    app.clock.advance(DAY / 2);
    is_replay(&second, &create(&key, "a", &rex()));
}

#[test]
fn a_key_has_1_to_255_visible_ascii_characters_and_is_sent_once() {
    let (_app, _, key) = App::start();
    for good in ["a", "!", "~", "\"quoted\"", "a,b", &"x".repeat(255)] {
        assert_eq!(create(&key, good, &rex()).status, 201, "{good}");
    }
    let count = key.get("/v1/pets").ids().len();
    for bad in ["", " ", "a b", "a\tb", "é", "🐕", &"x".repeat(256)] {
        let response = create(&key, bad, &rex());
        let message = response.is_error(400, "invalid_parameter").message();
        assert!(message.contains("Idempotency-Key"), "{bad:?}: {message}");
    }
    let request = key.request("POST", "/v1/pets").json(&rex());
    let request = request.header("Idempotency-Key", "a");
    let twice = request.header("Idempotency-Key", "a").send();
    twice.is_error(400, "invalid_parameter");
    assert_eq!(key.get("/v1/pets").ids().len(), count);
}

#[test]
fn only_201s_are_kept() {
    let (_app, _, key) = App::start();
    create(&key, "a", &json!({"name": "Rex"})).is_error(400, "invalid_body");
    let untyped = key.request("POST", "/v1/pets").body(rex().to_string());
    let untyped = untyped.header("Idempotency-Key", "a").send();
    untyped.is_error(415, "unsupported_media_type");
    let made = create(&key, "a", &rex());
    assert_eq!(
        (made.status, made.header("idempotent-replayed")),
        (201, None)
    );
}

#[test]
fn a_creation_that_was_rate_limited_can_be_retried_with_its_key() {
    let (app, _, _) = App::start();
    let key = app.key(enterprise(1, 10));
    assert_eq!(key.get("/v1/pets").status, 200);
    create(&key, "a", &rex()).is_error(429, "rate_limited");
    app.clock.advance(Duration::from_secs(60));
    let made = create(&key, "a", &rex());
    assert_eq!(
        (made.status, made.header("idempotent-replayed")),
        (201, None)
    );
}

#[test]
fn a_key_outlives_a_restart() {
    let (mut app, _, key) = App::start_with(|config| {
        // The address of a server in a test changes with a restart, and so does Location.
        config.public_url = Some("https://animals.example/v1".parse().unwrap());
    });
    let first = create(&key, "a", &rex());
    app.restart();
    let key = app.anonymous().with_key(key.key.as_deref());
    is_replay(&first, &create(&key, "a", &rex()));
    let other = json!({"name": "Mia", "categoryId": 1});
    create(&key, "a", &other).is_error(422, "idempotency_mismatch");
}

#[test]
fn the_first_response_is_repeated_though_the_animal_has_changed_or_is_gone_since() {
    let (app, _, key) = App::start();
    let first = create(&key, "a", &rex());
    let other = app.sql_client();
    for change in [
        "UPDATE pets SET status = 'sold', name = 'Mia'",
        "DELETE FROM pets",
    ] {
        other.change(change).unwrap();
        is_replay(&first, &create(&key, "a", &rex()));
    }
    assert_eq!(key.get("/v1/pets").ids(), [0; 0]);
}

#[test]
fn a_request_whose_key_is_still_in_flight_is_409_immediately_and_only_one_animal_is_created() {
    let (app, _, key) = App::start();
    let other = app.sql_client();
    // Nothing can be committed while another process holds the lock, so one of the two stays in flight.
    other.lock_all();
    let (send, responses) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (send, key) = (send.clone(), &key);
            scope.spawn(move || send.send(create(key, "a", &rex())));
        }
        let rejected = responses.recv().unwrap();
        rejected.is_error(409, "idempotency_conflict");
        assert_eq!(rejected.header("retry-after"), Some("1"), "{rejected}");
        other.unlock();
        let first = responses.recv().unwrap();
        assert_eq!(
            (first.status, first.header("idempotent-replayed")),
            (201, None)
        );
        is_replay(&first, &create(&key, "a", &rex()));
    });
    assert_eq!(key.get("/v1/pets").ids(), [1]);
}

#[test]
fn another_api_key_is_not_delayed_by_a_key_in_flight() {
    let (app, _, key) = App::start();
    let neighbour = app.key(enterprise(100, 100));
    let other = app.sql_client();
    other.lock_all();
    let (send, responses) = mpsc::channel();
    std::thread::scope(|scope| {
        for client in [&key, &key, &neighbour, &neighbour] {
            let send = send.clone();
            scope.spawn(move || send.send(create(client, "a", &rex())));
        }
        let next_two = || [(); 2].map(|()| responses.recv().unwrap().status);
        assert_eq!(next_two(), [409, 409]);
        other.unlock();
        assert_eq!(next_two(), [201, 201]);
    });
    assert_eq!(key.get("/v1/pets").ids(), [1, 2]);
}

#[test]
fn a_client_that_disconnects_and_retries_gets_the_one_animal() {
    let (_app, _, key) = App::start();
    let body = rex().to_string();
    let secret = key.key.as_deref().unwrap();
    let mut connection = key.connect();
    let request = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\nIdempotency-Key: a\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.send(request.as_bytes());
    drop(connection);
    eventually(Duration::from_secs(2), "an end of the first try", || {
        create(&key, "a", &rex()).status == 201
    });
    assert_eq!(key.get("/v1/pets").ids(), [1]);
}

#[test]
fn a_read_ignores_the_key() {
    let (_app, _, key) = App::start();
    for value in ["a", "not valid", ""] {
        let list = key
            .request("GET", "/v1/pets")
            .header("Idempotency-Key", value);
        assert_eq!(list.send().status, 200);
    }
}

#[test]
fn records_that_are_too_old_are_deleted_in_chunks_by_two_processes_and_no_others_are() {
    const OLD: usize = 1_100;
    const ALL: usize = OLD + 20;
    let (app, ..) = App::start();
    let after = START.plus(A_MILLISECOND);
    let try_every = |step: usize| -> Vec<(usize, CreationOutcome)> {
        let of = |number: usize| {
            let mut idempotency_key = [0; 32];
            idempotency_key[..8].copy_from_slice(&number.to_le_bytes());
            let pet = NewPet::from_json(rex().to_string().as_bytes()).expect("an animal");
            let record = IdempotencyRecord {
                key: KeyId(1),
                idempotency_key,
                fingerprint: [0; 32],
                created_at: if number < OLD { START } else { after },
            };
            app.block_on(app.store().create(pet, Some(record)))
        };
        let numbers = (0..ALL).step_by(step);
        numbers.map(|n| (n, of(n).expect("a store"))).collect()
    };
    try_every(1);
    let other = app.second_store();
    let mut chunks = 0;
    let sweep = || async {
        tokio::join!(
            app.store().sweep_idempotency(START),
            other.sweep_idempotency(START)
        )
    };
    loop {
        let (one, two) = app.block_on(sweep());
        chunks += 1;
        if !one.expect("a store") & !two.expect("a store") {
            break;
        }
    }
    assert!((2..OLD / 20).contains(&chunks), "{chunks}");
    for (number, created) in try_every(10) {
        let is_new = matches!(created, CreationOutcome::New(_));
        assert_eq!(is_new, number < OLD, "{number}: {created:?}");
    }
}
