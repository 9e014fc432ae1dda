//! From the first request to the shutdown: the log, and how a server stops.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use harness::{Client, Connection, Process, eventually};
use rusqlite::{Connection as Database, OpenFlags};
use serde_json::{Value, json};

use crate::{PROGRAM, folder, large_key, run};

/// How long requests in flight may take when a server shuts down.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// How long it may take after that to store the last usage, and to exit.
const LAST_FLUSH: Duration = Duration::from_secs(5);

/// The rest of a request that is still in flight.
const REST_OF_BODY: &[u8] = br#"Rex","categoryId":1}"#;

/// A request whose body is incomplete. The server has sent 100 Continue, so it is in flight.
pub(crate) fn begin_request(client: &Client) -> Connection {
    let start = br#"{"name":""#;
    let key = client.key.as_deref().expect("a key");
    let head = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nX-Request-Id: slow\r\n\
         Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        start.len() + REST_OF_BODY.len()
    );
    let mut connection = client.connect();
    connection.send(head.as_bytes());
    assert_eq!(connection.response().status, 100);
    connection.send(start);
    connection
}

#[test]
fn sigterm_and_sigint_drain_so_that_requests_in_flight_are_completed_and_their_usage_is_stored() {
    for signal in ["TERM", "INT"] {
        let folder = folder();
        let key = large_key(folder.path());
        let mut process = Process::serve(PROGRAM, folder.path(), &[]);
        let client = process.client(Some(&key));
        let mut idle = client.connect();
        assert_eq!(
            client.request("GET", "/v1/pets").send_on(&mut idle).status,
            200
        );
        let mut slow = begin_request(&client);

        process.signal(signal);
        eventually(
            Duration::from_secs(2),
            "new connections are refused",
            || {
                let refused = TcpStream::connect(client.address).map_err(|error| error.kind());
                matches!(refused, Err(ErrorKind::ConnectionRefused))
            },
        );
        assert!(idle.is_closed());
        slow.send(REST_OF_BODY);
        let response = slow.response();
        assert_eq!(
            (response.status, response.json()["name"].as_str()),
            (201, Some("Rex")),
            "{response}"
        );
        assert_eq!(response.header("connection"), Some("close"), "{response}");
        assert!(slow.is_closed());
        drop(slow);
        let responded = Instant::now();
        assert_eq!(process.ends_within(DRAIN), Some(0));
        assert!(
            responded.elapsed() < Duration::from_secs(2),
            "{:?}",
            responded.elapsed()
        );

        let usage = run(folder.path(), &[], &["keys", "usage", "--json"]).exits(0);
        let usage: Value = serde_json::from_str(&usage.stdout).expect("JSON");
        assert_eq!(usage[0]["requests"], 2, "{usage}");
        let log = process.log();
        assert!(log.contains(&format!("SIG{signal}")), "{log}");
        assert!(
            log.lines()
                .any(|line| line.contains("id=slow") && line.contains("status=201")),
            "{log}"
        );
    }
}

#[test]
fn a_server_waits_ten_seconds_for_its_clients_and_then_stops() {
    let folder = folder();
    let key = large_key(folder.path());
    let mut process = Process::serve(PROGRAM, folder.path(), &["--request-timeout", "60s"]);
    let client = process.client(Some(&key));
    let mut silent = client.connect();
    let mut half_a_head = client.connect();
    half_a_head.send(b"GET /v1/pets HTTP/1.1\r\nHost");
    let mut half_a_body = begin_request(&client);
    let admin = TcpStream::connect(process.admin).expect("a connection");

    let began = Instant::now();
    process.signal("TERM");
    assert_eq!(process.ends_within(DRAIN + LAST_FLUSH), Some(0));
    assert!(
        began.elapsed() > DRAIN.mul_f32(0.9),
        "the incomplete request got no time to finish"
    );
    let log = process.log();
    let line = log.lines().find(|line| line.contains("id=slow"));
    assert!(
        line.is_some_and(|line| line.contains("status=499")),
        "{log}"
    );
    for connection in [&mut silent, &mut half_a_head, &mut half_a_body] {
        assert!(connection.is_closed());
    }
    drop(admin);
    run(folder.path(), &[], &["keys", "list"]).exits(0);
}

#[test]
fn a_second_signal_ends_the_drain_immediately() {
    let reason = "stopped by a second signal (SIGINT) before it had finished; its last changes may have been made";
    for format in ["text", "json"] {
        let folder = folder();
        let key = large_key(folder.path());
        let args = ["--request-timeout", "60s", "--log", format];
        let mut process = Process::serve(PROGRAM, folder.path(), &args);
        let _under_way = begin_request(&process.client(Some(&key)));
        process.signal("TERM");
        let mut log = String::new();
        eventually(Duration::from_secs(2), "it stops", || {
            log += &process.log();
            log.contains("shutting down")
        });
        process.signal("INT");
        assert_eq!(process.ends_within(Duration::from_secs(2)), Some(1));
        let log = process.log();
        let last = log.lines().last().expect("a line");
        match format {
            "text" => assert_eq!(last, format!("animal-store: {reason}")),
            _ => is_error_in_json(last, reason),
        }
    }
}

/// Panics unless this is a line of a log in JSON: an error with this text.
#[track_caller]
fn is_error_in_json(line: &str, text: &str) {
    let parsed: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    assert_eq!(parsed["level"], "ERROR", "{line}");
    let time = parsed["timestamp"].as_str().expect("a time");
    assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
    let message = parsed["message"].as_str().expect("a message");
    assert!(message.contains(text), "{line}");
}

#[test]
fn why_a_server_failed_is_a_line_in_the_format_of_the_log() {
    let folder = folder();
    large_key(folder.path());
    let serve = |listen: &str, format: &str| {
        let args = ["serve", "--listen", listen, "--admin-listen", "127.0.0.1:0"];
        run(folder.path(), &[("ANIMAL_STORE_LOG", format)], &args)
    };
    let used = TcpListener::bind("127.0.0.1:0").expect("a port");
    let used = used.local_addr().expect("an address").to_string();
    let line = serve(&used, "text").fails_with(1);
    assert!(line.starts_with("animal-store: "), "{line}");
    is_error_in_json(
        &serve(&used, "json").fails_with(1),
        "Address already in use",
    );
    // A usage error is found before there is a log.
    let line = serve("nowhere", "json").fails_with(2);
    assert!(line.starts_with("animal-store: "), "{line}");

    let mut process = Process::serve(PROGRAM, folder.path(), &["--log", "json"]);
    let moved = folder.path().join("moved.db");
    std::fs::rename(folder.path().join("animal-store.db"), moved).expect("a new name");
    assert_eq!(process.ends_within(Duration::from_secs(10)), Some(1));
    let log = process.log();
    is_error_in_json(
        log.lines().last().expect("a line"),
        "the writer has stopped",
    );
}

#[test]
fn after_a_shutdown_the_file_has_all_animals_even_if_another_process_has_it_open() {
    let folder = folder();
    let key = large_key(folder.path());
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    let client = process.client(Some(&key));
    // An open connection keeps SQLite from moving the log into the file when the server closes its own.
    let path = folder.path().join("animal-store.db");
    let count = |path: &Path| {
        let file = Database::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let file = file.expect("a database");
        let count = file.query_row("SELECT count(*) FROM pets", (), |row| row.get::<_, i64>(0));
        (count.expect("a count"), file)
    };
    let reader = count(&path);
    for _ in 0..3 {
        let created = client.create(&json!({"name": "Rex", "categoryId": 1}));
        assert_eq!(created.status, 201);
    }
    process.signal("TERM");
    assert_eq!(process.ends_within(DRAIN + LAST_FLUSH), Some(0));
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).expect("a copy");
    assert_eq!(count(&copy).0, 3);
    drop(reader);
}

#[test]
fn a_server_with_only_idle_connections_stops_immediately() {
    let folder = folder();
    let key = large_key(folder.path());
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    let client = process.client(Some(&key));
    let silent: Vec<Connection> = (0..10).map(|_| client.connect()).collect();
    let mut used = client.connect();
    assert_eq!(
        client.request("GET", "/v1/pets").send_on(&mut used).status,
        200
    );
    let mut partial = client.connect();
    let request = client.request("GET", "/v1/pets");
    assert_eq!(request.send_on(&mut partial).status, 200);
    partial.send(b"G");
    let began = Instant::now();
    process.signal("TERM");
    assert_eq!(process.ends_within(DRAIN), Some(0));
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    drop((silent, used, partial));
}
