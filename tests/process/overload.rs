//! Too many clients, and a disk on which writes wait.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use harness::{App, Client, Connection, Response, Stopwatch, eventually};
use rusqlite::Connection as Database;
use serde_json::json;

use crate::metrics::value_at;
use crate::slow::is_raw_error;

/// How long a response to an overload may take, on a machine that may be busy. One that waits takes two seconds.
const FAST: Duration = Duration::from_millis(500);

/// Panics unless this many connections were rejected for this reason, by the metrics and the log.
fn is_counted_and_logged(app: &App, reason: &str, times: usize) {
    let metrics = Client::new(app.admin_address(), None).get("/metrics");
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let counter = "animal_store_connections_rejected_total";
    let sample = format!("{counter}{{reason=\"{reason}\"}} {times}\n");
    assert!(metrics.contains(&sample), "{metrics}");
    let end = format!(" reason={reason}\n");
    eventually(Duration::from_secs(2), "it is logged", || {
        app.log().matches(&end).count() == times
    });
}

/// Requests that are in flight until the lock is dropped.
fn in_flight(key: &Client, count: usize) -> Vec<JoinHandle<Response>> {
    let started = (0..count).map(|_| create(key, "patient")).collect();
    // A request that is being handled has been read: its connection is no longer idle.
    std::thread::sleep(Duration::from_secs(1));
    started
}

#[test]
fn a_connection_over_the_limit_is_503_immediately_while_all_have_a_request_in_flight() {
    let (app, _, key) = App::start_with(|config| config.max_connections = 4);
    let lock = hold(&app);
    let working = in_flight(&key, 4);
    for asks in [true, false] {
        let began = Stopwatch::start();
        let mut connection = key.connect();
        if asks {
            connection.send(b"GET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        let response = connection.response();
        let took = began.elapsed();
        assert!(took < FAST, "{took:?}");
        is_raw_error(&response, 503, "unavailable");
        assert_eq!(response.header("retry-after"), Some("1"), "{response}");
        assert!(connection.is_closed());
    }
    is_counted_and_logged(&app, "total", 2);
    drop(lock);
    for working in working {
        assert_eq!(working.join().expect("a response").status, 201);
    }
    assert_eq!(key.get("/v1/pets").status, 200, "there is room again");
}

#[test]
fn at_the_limit_the_connection_that_has_been_idle_longest_is_evicted() {
    let (_app, _, key) = App::start_with(|config| config.max_connections = 4);
    let mut open: Vec<Connection> = (0..4).map(|_| key.connect()).collect();
    let used = |connection: &mut Connection| {
        let response = key.request("GET", "/v1/pets").send_on(connection);
        assert_eq!(response.status, 200, "{response}");
        std::thread::sleep(Duration::from_millis(20));
    };
    for place in [2, 0, 3, 1] {
        used(&mut open[place]);
    }
    for longest_idle in [2, 0, 3, 1] {
        let mut one_more = key.connect();
        used(&mut one_more);
        assert!(open[longest_idle].is_closed(), "{longest_idle}");
        open[longest_idle] = one_more;
    }
    for connection in &mut open {
        used(connection);
    }
}

#[test]
fn one_address_cannot_hold_every_connection() {
    let (app, _, key) = App::start_with(|config| {
        config.max_connections = 100;
        config.max_connections_per_address = 10;
    });
    let mut open: Vec<Connection> = (0..10).map(|_| app.anonymous().connect()).collect();
    for connection in &mut open {
        let response = key.request("GET", "/v1/pets").send_on(connection);
        assert_eq!(response.status, 200);
    }
    let mut one_more = key.connect();
    is_raw_error(&one_more.response(), 503, "unavailable");
    is_counted_and_logged(&app, "address", 1);
    // Another address of this machine.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let from: std::net::SocketAddr = "127.0.0.2:0".parse().expect("an address");
    socket.bind(&from.into()).expect("an address of our own");
    socket.connect(&key.address.into()).expect("a connection");
    let mut other = Connection::from(TcpStream::from(socket));
    let response = key.request("GET", "/v1/pets").send_on(&mut other);
    assert_eq!(response.status, 200);
    assert_eq!(
        key.request("GET", "/v1/pets").send_on(&mut open[0]).status,
        200,
        "those that are open are not touched"
    );
    open.pop();
    eventually(Duration::from_secs(2), "room for one", || {
        let mut connection = key.connect();
        connection.send(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        connection.response().status == 200
    });
}

#[test]
fn a_rejected_client_that_sends_before_it_reads_gets_its_response_and_is_then_disconnected() {
    let (_app, _, key) = App::start_with(|config| config.max_connections_per_address = 1);
    let mut only = key.connect();
    let response = key.request("GET", "/v1/pets").send_on(&mut only);
    assert_eq!(response.status, 200);
    let connect = || {
        let mut stream = TcpStream::connect(key.address).expect("a connection");
        let head = b"POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n";
        stream.write_all(head).map(|()| stream)
    };
    let send_all_first = || -> std::io::Result<String> {
        let mut stream = connect()?;
        // It is rejected before it has sent its body.
        stream.peek(&mut [0])?;
        for _ in 0..20 {
            stream.write_all(&[b'x'; 1_000])?;
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut response = String::new();
        stream.read_to_string(&mut response).map(|_| response)
    };
    // It has half a second for that, which may be too short on a busy machine.
    let response = (0..5).find_map(|_| send_all_first().ok());
    let response = response.expect("a response");
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");

    let mut endless = connect().expect("a connection");
    eventually(Duration::from_secs(5), "it is disconnected", || {
        endless.write_all(b"x").is_err()
    });
}

#[test]
fn a_trusted_proxy_may_have_as_many_connections_as_there_are() {
    let (_app, _, key) = App::start_with(|config| {
        config.max_connections_per_address = 2;
        let proxy = "127.0.0.1".parse().expect("a range");
        config.trusted_proxies = animal_store::access::TrustedProxies::new(vec![proxy]);
    });
    let mut open: Vec<Connection> = (0..20).map(|_| key.connect()).collect();
    for connection in &mut open {
        let response = key.request("GET", "/v1/pets").send_on(connection);
        assert_eq!(response.status, 200);
    }
}

/// Holds the lock that every write needs, until it is dropped.
fn hold(app: &App) -> Database {
    let database = Database::open(app.database()).expect("the database");
    database.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    database
}

fn create(key: &Client, name: &str) -> JoinHandle<Response> {
    let (key, animal) = (key.clone(), json!({"name": name, "categoryId": 1}));
    std::thread::spawn(move || key.create(&animal))
}

#[test]
fn a_creation_that_failed_because_of_a_lock_leaves_nothing_degraded_after_any_other_write() {
    let (app, _, key) = App::start();
    let lock = hold(&app);
    key.create(&json!({"name": "Rex", "categoryId": 1}))
        .is_error(503, "unavailable");
    let checks = || key.get("/readyz?verbose").json()["checks"]["writer"].clone();
    eventually(Duration::from_secs(2), "degraded", || {
        checks() == "degraded"
    });
    drop(lock);
    // Its usage is stored within a second.
    assert_eq!(key.get("/v1/pets").status, 200);
    eventually(Duration::from_secs(5), "ready", || checks() == "ready");
}

#[test]
fn a_write_over_the_limit_gets_503_immediately_and_those_that_wait_are_stored() {
    let (app, _, key) = App::start_with(|config| config.max_waiting_writes = 3);
    let lock = hold(&app);
    let began = Instant::now();
    // The writer has the first one, or background work; three wait, and the next is rejected.
    let mut pending = in_flight(&key, 1);
    eventually(Duration::from_secs(1), "a rejection", || {
        pending.push(create(&key, "patient"));
        pending.iter().any(JoinHandle::is_finished)
    });
    let one_more = Stopwatch::start();
    let rejected = key.create(&json!({"name": "one more", "categoryId": 1}));
    let took = one_more.elapsed();
    rejected.is_error(503, "unavailable");
    assert!(took < FAST, "{took:?}");
    assert_eq!(rejected.header("retry-after"), Some("1"));
    assert!(
        !rejected.message().contains("waiting"),
        "it names the cause: {rejected}"
    );
    assert_eq!(key.get("/v1/pets").status, 200, "reads do not wait");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "the lock must be released before the creations time out"
    );
    drop(lock);

    let responses: Vec<Response> = pending
        .into_iter()
        .map(|creation| creation.join().expect("a response"))
        .collect();
    let count = |status| {
        responses
            .iter()
            .filter(|response| response.status == status)
            .count()
    };
    let (stored, rejected) = (count(201), count(503));
    assert!(
        stored >= 3 && rejected >= 1 && stored + rejected == responses.len(),
        "{stored} {rejected}"
    );
    let counted = value_at(app.admin_address(), "animal_store_writes_rejected_total");
    assert_eq!(counted, rejected as f64 + 1.0);
    assert_eq!(
        key.create(&json!({"name": "later", "categoryId": 1}))
            .status,
        201
    );
    assert_eq!(key.get("/v1/pets?limit=100").ids().len(), stored + 1);
}

#[test]
fn a_write_that_waits_too_long_gets_503_and_is_stored_neither_then_nor_later() {
    let (app, _, key) = App::start();
    let lock = hold(&app);
    let began = Instant::now();
    let response = key
        .request("POST", "/v1/pets")
        .header("Idempotency-Key", "once")
        .json(&json!({"name": "late", "categoryId": 1}))
        .send();
    let took = began.elapsed();
    response.is_error(503, "unavailable");
    assert!(
        took > Duration::from_secs(1) && took < Duration::from_secs(5),
        "{took:?}"
    );
    drop(lock);
    assert_eq!(
        key.create(&json!({"name": "next", "categoryId": 1})).status,
        201
    );
    let list = key.get("/v1/pets").json();
    assert_eq!(list.as_array().expect("a list").len(), 1, "{list}");
    assert_eq!(list[0]["name"], "next");
}

#[test]
fn a_client_that_has_closed_its_side_gets_its_response_also_when_that_takes_a_while() {
    let (app, _, key) = App::start();
    let secret = key.key.as_deref().expect("a key");
    let ask = |first: &str, rest: &str| {
        let mut connection = key.connect();
        let request =
            format!("{first} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n{rest}");
        connection.send(request.as_bytes());
        connection.end();
        connection
    };
    let mut reading = ask("GET /v1/pets", "\r\n");
    assert_eq!(reading.response().status, 200);
    assert!(reading.is_closed());

    let lock = hold(&app);
    let body = json!({"name": "Rex", "categoryId": 1}).to_string();
    let length = body.len();
    let mut writing = ask(
        "POST /v1/pets",
        &format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"),
    );
    std::thread::sleep(Duration::from_millis(200));
    drop(lock);
    assert_eq!(writing.response().status, 201);
    assert!(writing.is_closed());
}
