//! Responses that are sent before the body of their request was read: the client gets them, and knows whether it may reuse
//! the connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::{App, Client, Connection};
use serde_json::json;

/// A request with a body that no handler reads.
fn head(key: Option<&str>, target: &str, content_type: &str, rest: &str) -> String {
    let key = key.map_or(String::new(), |key| {
        format!("Authorization: Bearer {key}\r\n")
    });
    format!("POST {target} HTTP/1.1\r\nHost: x\r\n{key}Content-Type: {content_type}\r\n{rest}\r\n")
}

/// Every early response: the head of its request, and its status.
fn early(key: &Client) -> Vec<(String, u16)> {
    let secret = key.key.as_deref();
    let length = "Content-Length: 30\r\n";
    let json = "application/json";
    vec![
        (head(secret, "/v1/pets", "text/plain", length), 415),
        (head(secret, "/v1/nothing", json, length), 404),
        (head(secret, "/v1/store/orders", json, length), 405),
        (head(None, "/v1/pets", json, length), 401),
        (
            head(
                secret,
                "/v1/pets",
                json,
                &format!("Idempotency-Key: a b\r\n{length}"),
            ),
            400,
        ),
        (head(secret, "/docs", json, length), 405),
        (
            head(
                secret,
                "/v1/nothing",
                json,
                "Transfer-Encoding: chunked\r\n",
            ),
            404,
        ),
    ]
}

#[test]
fn a_small_body_that_follows_its_head_is_read_and_the_connection_stays_open() {
    let (_app, _, key) = App::start();
    for (head, status) in early(&key) {
        let mut connection = key.connect();
        for _ in 0..5 {
            connection.send(head.as_bytes());
            std::thread::sleep(Duration::from_millis(5));
            match head.contains("chunked") {
                true => connection.send(b"5\r\nabcde\r\n0\r\n\r\n"),
                false => connection.send(&[b'x'; 30]),
            }
            let response = connection.response();
            assert_eq!(response.status, status, "{head}{response}");
            assert_eq!(response.header("connection"), None, "{head}{response}");
            let next = key.request("GET", "/v1/pets").send_on(&mut connection);
            assert_eq!(next.status, 200, "{head}{next}");
        }
    }
}

#[test]
fn a_body_that_does_not_arrive_or_is_large_closes_the_connection_and_the_response_announces_it() {
    let (_app, _, key) = App::start();
    let secret = key.key.as_deref();
    for length in [30, 100_000] {
        let head = head(
            secret,
            "/v1/nothing",
            "application/json",
            &format!("Content-Length: {length}\r\n"),
        );
        let mut connection = key.connect();
        let began = Instant::now();
        connection.send(head.as_bytes());
        let response = connection.response();
        assert_eq!(response.status, 404, "{response}");
        assert_eq!(response.header("connection"), Some("close"), "{response}");
        assert!(began.elapsed() < Duration::from_secs(5));
        connection.end();
        assert!(connection.is_closed());
    }
}

#[test]
fn a_body_in_very_many_chunks_is_not_read_to_its_end_although_it_is_small() {
    let (_app, _, key) = App::start();
    let chunked = "Transfer-Encoding: chunked\r\n";
    let secret = key.key.as_deref();
    let head = head(secret, "/v1/nothing", "application/json", chunked);
    let mut connection = key.connect();
    let body = "1\r\nx\r\n".repeat(2_000);
    connection.send(format!("{head}{body}0\r\n\r\n").as_bytes());
    let response = connection.response();
    assert_eq!(response.status, 404, "{response}");
    assert_eq!(response.header("connection"), Some("close"), "{response}");
}

#[test]
fn a_body_that_waits_for_100_continue_is_not_requested() {
    let (_app, _, key) = App::start();
    let secret = key.key.as_deref();
    for (target, length, status) in [
        ("/v1/nothing", 30, 404),
        ("/v1/pets", 20_000, 413),
        ("/v1/pets", 2_000_000, 413),
    ] {
        let rest = format!("Expect: 100-continue\r\nContent-Length: {length}\r\n");
        let head = head(secret, target, "application/json", &rest);
        let mut connection = key.connect();
        connection.send(head.as_bytes());
        let response = connection.response();
        assert_eq!(response.status, status, "{response}");
        assert_eq!(response.header("connection"), Some("close"), "{response}");
    }
}

#[test]
fn a_content_length_over_the_limit_is_413_immediately_and_closes_the_connection() {
    let (_app, _, key) = App::start();
    let length = "Content-Length: 16385\r\n";
    let head = head(key.key.as_deref(), "/v1/pets", "application/json", length);
    let began = Instant::now();
    let mut connection = key.connect();
    connection.send(head.as_bytes());
    let response = connection.response();
    response.is_error(413, "body_too_large");
    assert_eq!(response.header("connection"), Some("close"), "{response}");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

/// Sends the whole head and body before it reads, as many clients do, and returns the status.
fn send_all_first(key: &Client, head: &str, length: usize) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(key.address)?;
    stream.write_all(head.as_bytes())?;
    let part = vec![b'x'; 64 * 1024];
    let mut left = length;
    while left > 0 {
        let now = left.min(part.len());
        stream.write_all(&part[..now])?;
        left -= now;
    }
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let status = String::from_utf8_lossy(&response[9..12]).into_owned();
    Ok(status.parse().expect("a status"))
}

#[test]
fn a_client_that_sends_megabytes_before_it_reads_gets_the_response() {
    let (_app, _, key) = App::start();
    let secret = key.key.as_deref();
    for megabytes in [1, 5, 20] {
        let length = megabytes << 20;
        let rest = format!("Content-Length: {length}\r\n");
        let upgrade = format!("Connection: Upgrade\r\nUpgrade: h2c\r\n{rest}");
        for (head, status) in [
            (head(secret, "/v1/pets", "application/json", &rest), 413),
            (head(secret, "/v1/pets", "application/json", &upgrade), 413),
            (head(secret, "/v1/nothing", "application/json", &rest), 404),
            (
                head(Some("wrong"), "/v1/pets", "application/json", &rest),
                401,
            ),
        ] {
            for _ in 0..20 {
                match send_all_first(&key, &head, length) {
                    Ok(got) => assert!(got == status || (status == 401 && got == 429), "{got}"),
                    Err(error) => panic!("{megabytes} MB, {status}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_client_that_continues_to_send_after_its_response_is_disconnected() {
    let (_app, _, key) = App::start();
    let head = head(
        key.key.as_deref(),
        "/v1/nothing",
        "application/json",
        "Transfer-Encoding: chunked\r\n",
    );
    let mut stream = TcpStream::connect(key.address).expect("a connection");
    stream.write_all(head.as_bytes()).expect("a head");
    let began = Instant::now();
    let ended = loop {
        if let Err(error) = stream.write_all(b"1\r\nx\r\n") {
            break error;
        }
        // The server reads and discards for ten seconds in total.
        assert!(began.elapsed() < Duration::from_secs(14), "still open");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(began.elapsed() > Duration::from_secs(9), "{ended}");
}

#[test]
fn hundreds_of_bodies_that_are_not_read_do_not_keep_others_from_being_served() {
    let (app, _, key) = App::start();
    let rest = "Content-Length: 1000000\r\n";
    let head = head(key.key.as_deref(), "/v1/nothing", "application/json", rest);
    let mut open: Vec<Connection> = (0..900).map(|_| key.connect()).collect();
    for connection in &mut open {
        connection.send(head.as_bytes());
    }
    let began = Instant::now();
    assert_eq!(app.anonymous().get("/livez").status, 200);
    assert_eq!(
        key.create(&json!({"name": "Rex", "categoryId": 1})).status,
        201
    );
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn connections_that_linger_make_room_for_others() {
    let (_app, _, key) = App::start_with(|config| config.max_connections = 40);
    let rest = "Content-Length: 100000000\r\n";
    let head = head(Some("wrong"), "/v1/pets", "application/json", rest);
    let lingering: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(key.address).expect("a connection");
            stream.write_all(head.as_bytes()).expect("a head");
            let mut start = [0; 12];
            stream.read_exact(&mut start).expect("a response");
            stream
        })
        .collect();
    let began = Instant::now();
    for _ in 0..40 {
        assert_eq!(key.get("/v1/pets").status, 200);
    }
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    drop(lingering);
}

#[test]
fn a_body_whose_chunks_are_malformed_is_400_and_the_response_announces_the_close() {
    let (_app, _, key) = App::start();
    let head = head(
        key.key.as_deref(),
        "/v1/pets",
        "application/json",
        "Transfer-Encoding: chunked\r\n",
    );
    for body in ["zz\r\n", "0x5\r\nabcde\r\n0\r\n\r\n", "5\r\nabcdefgh\r\n"] {
        let mut connection = key.connect();
        connection.send(format!("{head}{body}").as_bytes());
        let response = connection.response();
        response.is_error(400, "invalid_body");
        assert_eq!(response.header("connection"), Some("close"), "{response}");
        connection.end();
        assert!(connection.is_closed());
    }
}

#[test]
fn a_shutdown_does_not_wait_for_the_rest_of_a_body_whose_response_was_sent() {
    let (mut app, _, key) = App::start();
    let length = "Content-Length: 100000\r\n";
    let secret = key.key.as_deref();
    let head = head(secret, "/v1/nothing", "application/json", length);
    let mut connection = key.connect();
    connection.send(head.as_bytes());
    assert_eq!(connection.response().status, 404);
    let began = Instant::now();
    app.stop();
    let took = began.elapsed();
    // The server waits up to five seconds for more of the body, but one second during a shutdown.
    assert!(took < Duration::from_millis(3_500), "{took:?}");
}
