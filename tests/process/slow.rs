//! Clients that are slow, silent or too many, and a disk that lets writes wait.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use harness::{App, Client, Connection, Response, eventually};
use rusqlite::Connection as Database;
use serde_json::json;

/// The timeout that a test sets, and the other one, which must not be what ends its connection.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

/// What an overload may take to be reported.
const FAST: Duration = Duration::from_millis(100);

fn with_timeouts(request: Duration, idle: Duration) -> (App, Client) {
    let (app, _, key) = App::start_with(|config| {
        config.request_timeout = request;
        config.idle_timeout = idle;
    });
    (app, key)
}

/// Panics unless `began` lies one timeout back: not less, and not much more.
#[track_caller]
fn is_on_time(began: Instant) {
    let took = began.elapsed();
    assert!(took >= SHORT.mul_f32(0.9) && took < SHORT * 4, "{took:?}");
}

/// A head that asks for a body of so many bytes.
fn head(key: &Client, length: usize) -> String {
    let key = key.key.as_deref().expect("a key");
    format!(
        "POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[track_caller]
fn is_raw_error(response: &Response, status: u16, code: &str) {
    response.is_error(status, code);
    assert_eq!(
        response.json().as_object().expect("an object").len(),
        3,
        "{response}"
    );
    assert_eq!(response.json()["status"], status, "{response}");
    assert_eq!(
        response.header("content-type"),
        Some("application/json"),
        "{response}"
    );
    assert_eq!(response.header("connection"), Some("close"), "{response}");
    assert!(response.header("x-request-id").is_some(), "{response}");
    assert_eq!(
        response.header("x-content-type-options"),
        Some("nosniff"),
        "{response}"
    );
    response.rate();
}

#[test]
fn a_connection_without_a_first_byte_is_closed() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let began = Instant::now();
    let mut connection = key.connect();
    assert!(connection.is_closed());
    is_on_time(began);
}

#[test]
fn half_a_head_gets_408_and_the_connection_closed() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let began = Instant::now();
    let mut connection = key.connect();
    connection.send(b"GET /v1/pets HTTP/1.1\r\nHost: ");
    is_raw_error(&connection.response(), 408, "request_timeout");
    assert!(connection.is_closed());
    is_on_time(began);
}

#[test]
fn a_head_that_trickles_gets_408_though_each_byte_comes_in_time() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let began = Instant::now();
    let stream = TcpStream::connect(key.address).expect("a connection");
    trickle(stream.try_clone().expect("a clone"));
    let mut connection = Connection::from(stream);
    is_raw_error(&connection.response(), 408, "request_timeout");
    is_on_time(began);
}

#[test]
fn half_a_head_after_a_response_gets_408_too() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let mut connection = key.connect();
    assert_eq!(
        key.request("GET", "/v1/pets")
            .send_on(&mut connection)
            .status,
        200
    );
    let began = Instant::now();
    connection.send(b"GET /v1/pe");
    is_raw_error(&connection.response(), 408, "request_timeout");
    assert!(connection.is_closed());
    is_on_time(began);
}

#[test]
fn a_body_that_trickles_gets_408_though_each_byte_comes_in_time() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let began = Instant::now();
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    stream
        .write_all(head(&key, 10_000).as_bytes())
        .expect("a head");
    trickle(stream.try_clone().expect("a clone"));
    let response = Connection::from(stream).response();
    response.is_error(408, "request_timeout");
    response.rate();
    assert_eq!(response.header("connection"), Some("close"), "{response}");
    is_on_time(began);
    assert!(key.get("/v1/pets").ids().is_empty());
}

#[test]
fn a_body_that_nobody_asked_for_is_not_waited_for() {
    let (_app, key) = with_timeouts(SHORT, SHORT);
    let began = Instant::now();
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    let head = head(&key.with_key(Some("wrong")), 10_000);
    stream.write_all(head.as_bytes()).expect("a head");
    trickle(stream.try_clone().expect("a clone"));
    let mut connection = Connection::from(stream);
    connection.response().is_error(401, "invalid_api_key");
    assert!(connection.is_closed());
    assert!(began.elapsed() < SHORT * 4, "{:?}", began.elapsed());
}

#[test]
fn a_connection_that_is_silent_after_a_response_is_closed() {
    for request_timeout in [LONG, SHORT / 3] {
        let (_app, key) = with_timeouts(request_timeout, SHORT);
        let mut connection = key.connect();
        for _ in 0..2 {
            assert_eq!(
                key.request("GET", "/v1/pets")
                    .send_on(&mut connection)
                    .status,
                200
            );
        }
        let began = Instant::now();
        assert!(connection.is_closed());
        is_on_time(began);
    }
}

#[test]
fn the_admin_listener_does_not_wait_forever_either() {
    let (app, _) = with_timeouts(SHORT, LONG);
    let began = Instant::now();
    let mut silent = Connection::new(app.admin_address());
    let mut half = Connection::new(app.admin_address());
    half.send(b"GET /metrics HTTP/1.1\r\nHost");
    half.response().is_error(408, "request_timeout");
    assert!(silent.is_closed() && half.is_closed());
    is_on_time(began);
}

/// Sends single bytes at intervals until the server closes the connection.
fn trickle(mut stream: TcpStream) {
    std::thread::spawn(move || {
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(SHORT / 10);
        }
    });
}

#[test]
fn a_client_that_does_not_take_its_responses_is_closed() {
    let (app, key) = with_timeouts(SHORT, SHORT);
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    stream
        .set_write_timeout(Some(Duration::from_secs(5)))
        .expect("a timeout");
    let began = Instant::now();
    // Each response is larger than a megabyte: what the system takes on its own is soon used up.
    let request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut sent = 0;
    let closed = loop {
        match stream.write_all(request) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{sent} requests, and still open"
        );
        std::thread::sleep(Duration::from_millis(1));
    };
    let kind = closed.kind();
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    assert!(matches!(kind, BrokenPipe | ConnectionReset), "{kind:?}");
    assert!(began.elapsed() >= SHORT.mul_f32(0.9));
    assert_eq!(app.anyone().get("/livez").status, 200);
}

#[test]
fn a_client_that_takes_its_response_too_slowly_is_closed_though_it_takes_some_each_time() {
    let (_app, key) = with_timeouts(SHORT, SHORT);
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    let receives = socket2::SockRef::from(&stream);
    receives
        .set_recv_buffer_size(4_096)
        .expect("a small buffer");
    let request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request).expect("a request");
    let began = Instant::now();
    let (mut taken, mut some) = (0, [0; 16]);
    while let Ok(1..) = stream.read(&mut some) {
        taken += some.len();
        assert!(began.elapsed() < LONG, "{taken} bytes, and still open");
        // A sixth of the slowest rate that is accepted.
        std::thread::sleep(Duration::from_millis(100));
        if taken > 160 {
            // The connection is gone when what was on its way is all there is.
            let rest = std::io::copy(&mut stream, &mut std::io::sink());
            let rest = rest.unwrap_or_default();
            assert!(rest < 1_000_000, "{rest}");
            break;
        }
    }
}

#[test]
fn a_client_that_takes_its_response_slowly_but_steadily_gets_all_of_it() {
    let (_app, key) = with_timeouts(LONG, SHORT);
    let whole = key.get("/docs/swagger-ui-bundle.js").body.len();
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    let receives = socket2::SockRef::from(&stream);
    receives
        .set_recv_buffer_size(64 << 10)
        .expect("a small buffer");
    let request =
        b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("a request");
    let (mut taken, mut some) = (0, [0; 32 << 10]);
    let began = Instant::now();
    loop {
        match stream.read(&mut some).expect("the response") {
            0 => break,
            n => taken += n,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(taken > whole, "{taken} of {whole}");
    assert!(began.elapsed() > SHORT * 2, "{:?}", began.elapsed());
}

/// Requests that are at work until the lock is dropped.
fn at_work(key: &Client, count: usize) -> Vec<JoinHandle<Response>> {
    let started = (0..count).map(|_| create(key, "patient")).collect();
    // One that is at work has been read: its connection is no longer idle.
    std::thread::sleep(Duration::from_millis(300));
    started
}

#[test]
fn a_connection_too_many_is_503_at_once_while_all_are_at_work() {
    let (app, _, key) = App::start_with(|config| config.max_connections = 4);
    let lock = hold(&app);
    let working = at_work(&key, 4);
    for asks in [true, false] {
        let began = Instant::now();
        let mut connection = key.connect();
        if asks {
            connection.send(b"GET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        let response = connection.response();
        assert!(began.elapsed() < FAST, "{:?}", began.elapsed());
        is_raw_error(&response, 503, "unavailable");
        assert_eq!(response.header("retry-after"), Some("1"), "{response}");
        assert!(connection.is_closed());
    }
    drop(lock);
    for working in working {
        assert_eq!(working.join().expect("a response").status, 201);
    }
    assert_eq!(key.get("/v1/pets").status, 200, "there is room again");
}

#[test]
fn when_all_connections_are_taken_the_one_that_has_been_idle_longest_makes_room() {
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
    let mut open: Vec<Connection> = (0..10).map(|_| app.anyone().connect()).collect();
    for connection in &mut open {
        let response = key.request("GET", "/v1/pets").send_on(connection);
        assert_eq!(response.status, 200);
    }
    let mut one_more = key.connect();
    is_raw_error(&one_more.response(), 503, "unavailable");
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
fn a_write_too_many_gets_503_at_once_and_those_that_wait_are_stored() {
    let (app, _, key) = App::start_with(|config| config.max_waiting_writes = 3);
    let lock = hold(&app);
    let began = Instant::now();
    // The first is with the writer, unless background work is; three wait, and the next is refused.
    let mut asked = at_work(&key, 1);
    eventually(Duration::from_secs(1), "a refusal", || {
        asked.push(create(&key, "patient"));
        asked.iter().any(JoinHandle::is_finished)
    });
    let one_more = Instant::now();
    let refused = key.create(&json!({"name": "one more", "categoryId": 1}));
    let took = one_more.elapsed();
    refused.is_error(503, "unavailable");
    assert!(took < FAST, "{took:?}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(
        !refused.message().contains("waiting"),
        "it names the cause: {refused}"
    );
    assert_eq!(key.get("/v1/pets").status, 200, "reads do not wait");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "too late to let go"
    );
    drop(lock);

    let responses: Vec<Response> = asked
        .into_iter()
        .map(|asked| asked.join().expect("a response"))
        .collect();
    let count = |status| {
        responses
            .iter()
            .filter(|response| response.status == status)
            .count()
    };
    let (stored, refused) = (count(201), count(503));
    assert!(
        stored >= 3 && refused >= 1 && stored + refused == responses.len(),
        "{stored} {refused}"
    );
    assert_eq!(
        key.create(&json!({"name": "later", "categoryId": 1}))
            .status,
        201
    );
    assert_eq!(key.get("/v1/pets?limit=100").ids().len(), stored + 1);
}

#[test]
fn a_write_that_waits_too_long_gets_503_and_stored_neither_then_nor_later() {
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
