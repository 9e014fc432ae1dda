//! Clients that are slow or silent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use animal_store::api::cors::Cors;
use harness::{App, Client, Connection, Response, Stopwatch};

/// The timeout that is tested, and the other one, which no test waits for.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

fn with_timeouts(request: Duration, idle: Duration) -> (App, Client) {
    let (app, _, key) = App::start_with(|config| {
        config.request_timeout = request;
        config.idle_timeout = idle;
    });
    (app, key)
}

/// Panics unless one timeout has passed since `began`: not less, and not much more.
#[track_caller]
fn is_on_time(began: Stopwatch) {
    let (least, took) = (began.elapsed_with_pauses(), began.elapsed());
    assert!(
        least >= SHORT.mul_f32(0.9) && took < SHORT * 4,
        "{least:?}, {took:?}"
    );
}

/// The head of a request with a body of this many bytes.
fn head(key: &Client, length: usize) -> String {
    let key = key.key.as_deref().expect("a key");
    format!(
        "POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[track_caller]
pub(crate) fn is_raw_error(response: &Response, status: u16, code: &str) {
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
    for name in ["x-request-id", "date"] {
        assert!(response.header(name).is_some(), "{name}: {response}");
    }
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
    let began = Stopwatch::start();
    let mut connection = key.connect();
    assert!(connection.is_closed());
    is_on_time(began);
}

#[test]
fn an_empty_line_after_a_request_does_not_begin_the_next_one() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let mut connection = key.connect();
    for _ in 0..2 {
        let response = key.request("GET", "/v1/pets").send_on(&mut connection);
        assert_eq!(response.status, 200, "{response}");
        connection.send(b"\r\n");
        // Longer than the timeout for a head.
        std::thread::sleep(2 * SHORT);
    }
    let response = key.request("GET", "/v1/pets").send_on(&mut connection);
    assert_eq!(response.status, 200, "{response}");
}

#[test]
fn an_incomplete_head_gets_408_and_the_connection_is_closed() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let began = Stopwatch::start();
    let mut connection = key.connect();
    connection.send(b"GET /v1/pets HTTP/1.1\r\nHost: ");
    is_raw_error(&connection.response(), 408, "request_timeout");
    assert!(connection.is_closed());
    is_on_time(began);
}

#[test]
fn a_head_that_trickles_gets_408_though_each_byte_arrives_in_time() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let began = Stopwatch::start();
    let stream = TcpStream::connect(key.address).expect("a connection");
    trickle(stream.try_clone().expect("a clone"));
    let mut connection = Connection::from(stream);
    is_raw_error(&connection.response(), 408, "request_timeout");
    is_on_time(began);
}

#[test]
fn an_incomplete_head_after_a_response_gets_408_too() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let mut connection = key.connect();
    assert_eq!(
        key.request("GET", "/v1/pets")
            .send_on(&mut connection)
            .status,
        200
    );
    let began = Stopwatch::start();
    connection.send(b"GET /v1/pe");
    is_raw_error(&connection.response(), 408, "request_timeout");
    assert!(connection.is_closed());
    is_on_time(began);
}

#[test]
fn a_body_that_trickles_gets_408_though_each_byte_arrives_in_time() {
    let (_app, key) = with_timeouts(SHORT, LONG);
    let began = Stopwatch::start();
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
fn a_body_that_no_handler_reads_is_not_waited_for() {
    let (_app, key) = with_timeouts(SHORT, SHORT);
    let began = Stopwatch::start();
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
        let mut get = || {
            let response = key.request("GET", "/v1/pets").send_on(&mut connection);
            assert_eq!(response.status, 200);
        };
        get();
        let began = Stopwatch::start();
        get();
        assert!(connection.is_closed());
        is_on_time(began);
    }
}

#[test]
fn the_admin_listener_has_timeouts_too() {
    let (app, _) = with_timeouts(SHORT, LONG);
    let began = Stopwatch::start();
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
fn a_client_that_does_not_read_its_responses_is_disconnected() {
    let (app, key) = with_timeouts(SHORT, SHORT);
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    stream
        .set_write_timeout(Some(Duration::from_secs(5)))
        .expect("a timeout");
    let began = Instant::now();
    // Each response has a hundred kilobytes: the buffers of the system are soon full.
    let request = b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n";
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
    assert_eq!(app.anonymous().get("/livez").status, 200);
}

#[test]
fn a_client_that_reads_its_response_too_slowly_is_disconnected_though_it_reads_some_each_time() {
    let (_app, key) = with_timeouts(SHORT, SHORT);
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    let receives = socket2::SockRef::from(&stream);
    receives
        .set_recv_buffer_size(4_096)
        .expect("a small buffer");
    // Ten times what the system buffers.
    let requests = b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n".repeat(300);
    stream.write_all(&requests).expect("room for requests");
    let began = Instant::now();
    let (mut total, mut some) = (0, [0; 16]);
    while let Ok(1..) = stream.read(&mut some) {
        total += some.len();
        assert!(began.elapsed() < LONG, "{total} bytes, and still open");
        // A sixth of the slowest rate that is accepted.
        std::thread::sleep(Duration::from_millis(100));
        if total > 160 {
            // After a close, only what is buffered can still be read.
            let rest = std::io::copy(&mut stream, &mut std::io::sink());
            let rest = rest.unwrap_or_default();
            assert!(rest < 10_000_000, "{rest}");
            break;
        }
    }
}

/// The bytes that the system holds for a client of a server on 127.0.0.1: not sent, or not acknowledged.
fn held_by_the_system(server: u16, client: u16) -> u64 {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("the sockets");
    let addresses = format!("0100007F:{server:04X} 0100007F:{client:04X} ");
    let (_, line) = sockets.split_once(&addresses).expect("a connection");
    // After the state.
    let queue = line.split([' ', ':']).nth(1).expect("a queue");
    u64::from_str_radix(queue, 16).expect("a number")
}

#[test]
fn a_response_that_is_not_read_waits_in_the_server_and_not_in_the_system() {
    let (_app, key) = with_timeouts(LONG, LONG);
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    let small = socket2::SockRef::from(&stream).set_recv_buffer_size(4_096);
    small.expect("a small buffer");
    let requests = b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n".repeat(14);
    stream.write_all(&requests).expect("sent");
    stream.peek(&mut [0]).expect("a response");
    // By now, the server has filled what it may fill.
    std::thread::sleep(SHORT);
    let client = stream.local_addr().expect("an address");
    let held = held_by_the_system(key.address.port(), client.port());
    // Without a limit, it would be all of it: more than a megabyte.
    assert!(held < 128 << 10, "{held} bytes");
}

#[test]
fn a_client_that_reads_its_response_slowly_but_steadily_gets_all_of_it() {
    // A pause of the machine is shorter.
    let timeout = SHORT * 8;
    let (_app, key) = with_timeouts(LONG, timeout);
    let whole = 15 * key.get("/docs").body.len();
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    let receives = socket2::SockRef::from(&stream);
    receives
        .set_recv_buffer_size(64 << 10)
        .expect("a small buffer");
    let requests = b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n".repeat(14);
    let last = b"GET /docs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let requests = [&requests[..], last].concat();
    stream.write_all(&requests).expect("room for requests");
    let (mut total, mut some) = (0, [0; 16 << 10]);
    let began = Instant::now();
    loop {
        match stream.read(&mut some).expect("the response") {
            0 => break,
            n => total += n,
        }
        std::thread::sleep(Duration::from_millis(60));
    }
    assert!(total > whole, "{total} of {whole}");
    assert!(began.elapsed() > timeout * 2, "{:?}", began.elapsed());
}

#[test]
fn a_shutdown_cuts_off_no_response_though_more_requests_have_arrived() {
    // The second time, the server closes connections before the client has read a response that began before the shutdown.
    for (buffer, pause) in [(64 << 10, 0), (4 << 10, 1_500)] {
        let (mut app, key) = with_timeouts(LONG, LONG);
        let page = key.request("GET", "/docs").host("x").send().body;
        let mut stream = TcpStream::connect(key.address).expect("a connection");
        let receives = socket2::SockRef::from(&stream);
        receives
            .set_recv_buffer_size(buffer)
            .expect("a small buffer");
        // More than the server reads at a time.
        let requests = b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_000);
        stream.write_all(&requests).expect("room for requests");
        stream.read_exact(&mut [0; 1_000]).expect("a response");
        let stopping = std::thread::spawn(move || app.stop());
        std::thread::sleep(Duration::from_millis(pause));
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        assert!(rest.ends_with(&page[1_000..]), "{pause} ms: {end:?}");
        drop(stream);
        stopping.join().expect("stopped");
    }
}

#[test]
fn a_page_can_read_a_408_only_if_all_origins_are_allowed() {
    for (origin, allowed) in [("*", Some("*")), ("https://shop.example", None)] {
        let (_app, anonymous, _) = App::start_with(|config| {
            config.cors = Cors::new(vec![origin.parse().expect("an origin")]);
            config.request_timeout = Duration::from_millis(100);
        });
        let mut connection = anonymous.connect();
        connection.send(b"GET /v1/pets HTTP/1.1\r\nOrigin: https://shop.example\r\n");
        let response = connection.response();
        is_raw_error(&response, 408, "request_timeout");
        let header = response.header("access-control-allow-origin");
        assert_eq!(header, allowed, "{response}");
    }
}
