//! HTTP/2: what a request is, early responses, and the shutdown of a server. The contract is tested over HTTP/2 too (`./test tls`).

use std::process::Command;
use std::time::{Duration, Instant};

use harness::{App, Certificate, Client, Process, Stopwatch, eventually};
use serde_json::Value;
use tempfile::TempDir;

use crate::raw::*;
use crate::start;

/// A server, a client with a key, and its certificate.
pub(crate) fn raw_server() -> (App, Client, Certificate, TempDir) {
    let certificate = Certificate::new();
    let (app, client, folder) = start(&certificate);
    (app, client, certificate, folder)
}

#[track_caller]
fn code(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    body["code"].as_str().expect("a code").to_owned()
}

#[test]
fn curl_speaks_http_2() {
    let (app, key, certificate, folder) = raw_server();
    std::fs::write(folder.path().join("ca.pem"), &certificate.pem).expect("a file");
    let run = |args: &[&str]| {
        let output = Command::new("curl")
            .current_dir(folder.path())
            .args([
                "-sS",
                "--cacert",
                "ca.pem",
                "-w",
                "\n%{http_version} %{http_code}",
            ])
            .args([
                "-H",
                &format!(
                    "Authorization: Bearer {}",
                    key.key.as_deref().expect("a key")
                ),
            ])
            .args(args)
            .output()
            .expect("curl runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let url = format!("https://{}/v1/pets", app.address());
    assert_eq!(run(&[&url]), "[]\n2 200");
    assert_eq!(run(&["--http1.1", &url]), "[]\n1.1 200");
    let json = ["-H", "Content-Type: application/json", "--data-binary"];
    let made = run(&[&json[..], &["{\"name\":\"Rex\",\"categoryId\":1}", &url]].concat());
    assert!(made.ends_with("\n2 201"), "{made}");
    // The response comes while the body is still being sent.
    std::fs::write(folder.path().join("large"), vec![b' '; 5_000_000]).expect("a file");
    for _ in 0..5 {
        let rejected = run(&[&json[..], &["@large", &url]].concat());
        assert!(
            rejected.contains("body_too_large") && rejected.ends_with("\n2 413"),
            "{rejected}"
        );
    }
}

#[test]
fn a_client_that_expects_100_continue_gets_it_or_the_response_before_it_sends() {
    let (_app, key, certificate, _folder) = raw_server();
    let body = br#"{"name":"Rex","categoryId":1}"#;
    let length = body.len().to_string();
    for (expect, length, first) in [
        ("100-continue", &*length, 100),
        ("100-Continue", &length, 100),
        ("100-continue", "16385", 413),
    ] {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        raw.post(1, &[("expect", expect), ("content-length", length)]);
        let head = raw.next_of(HEADERS).expect("a head");
        assert_eq!(status_of(&head.payload), first);
        if first == 100 {
            assert!(!head.has(END_STREAM));
            raw.send_frame(DATA, END_STREAM, 1, body);
            assert_eq!(raw.response(1).0, 201);
        }
    }
    // One that does not expect it gets no interim response.
    let mut raw = Raw::connect(&key, &certificate, &[]);
    raw.post(1, &[("content-length", &length)]);
    raw.set_read_timeout(Duration::from_millis(300));
    assert!(raw.next_of(HEADERS).is_none());
}

/// A server whose admin listener has TLS, and a client of that.
fn admin() -> (Process, Client, Certificate, TempDir) {
    let (certificate, folder) = (Certificate::new(), crate::folder());
    certificate.write(folder.path());
    let token = "0123456789abcdef";
    let args = ["--admin-token", token, "--admin-host", "a.example"];
    let process = crate::serve_admin(folder.path(), "0.0.0.0:0", &args);
    let address = ([127, 0, 0, 1], process.admin.port()).into();
    let client = Client::new(address, Some(token.into()));
    (process, client, certificate, folder)
}

#[test]
fn dashboards_that_each_have_a_stream_open_all_the_time_do_not_use_up_the_streams() {
    let (_process, client, certificate, _folder) = admin();
    let mut connections = Vec::new();
    for number in 0..40 {
        let mut raw = Raw::connect(&client, &certificate, &[(INITIAL_WINDOW, 0)]);
        for stream in [1, 3] {
            raw.get(stream, "/");
            let head = raw.next_of(HEADERS).expect("a response");
            assert_eq!(status_of(&head.payload), 200, "{number}, {stream}");
        }
        connections.push(raw);
    }
}

/// A server, and a connection that has asked for live data, of which it takes this many bytes.
fn live(window: u32) -> (Process, Raw, TempDir) {
    let (process, client, certificate, folder) = admin();
    let mut raw = Raw::connect(&client, &certificate, &[(INITIAL_WINDOW, window)]);
    raw.get(1, "/api/live");
    raw.next_of(DATA).expect("events");
    (process, raw, folder)
}

#[test]
fn a_change_by_an_operator_is_logged_although_the_stream_is_reset() {
    let (process, mut raw, folder) = live(65_535);
    let create = ["keys", "create", "--name", "a", "--plan", "pro"];
    crate::run(folder.path(), &create).exits(0);
    let head = raw.head("POST", "/api/keys/1/revoke", &[]);
    let ends = END_STREAM | END_HEADERS;
    let reset = [
        frame(HEADERS, ends, 3, &head),
        frame(RST_STREAM, 0, 3, &8_u32.to_be_bytes()),
    ];
    raw.send(&reset.concat()).expect("it is sent");
    let mut log = String::new();
    eventually(Duration::from_secs(10), "a line", || {
        log.push_str(&process.log());
        log.contains("key revoked")
    });
}

#[test]
fn a_stream_of_live_data_ends_at_shutdown_without_a_reset() {
    // The second one has read a part of the first event, and reads the rest after the signal.
    for window in [65_535, 10] {
        let (process, mut raw, _folder) = live(window);
        process.signal("TERM");
        if window == 10 {
            raw.next_of(GOAWAY).expect("a shutdown");
            raw.send_frame(WINDOW_UPDATE, 0, 1, &1_000_000_u32.to_be_bytes());
        }
        loop {
            let frame = raw.next().expect("the end of the stream");
            assert!(frame.kind != RST_STREAM, "{window}: {frame:?}");
            if frame.stream == 1 && frame.has(END_STREAM) {
                break;
            }
        }
    }
}

#[test]
fn a_stream_of_live_data_that_is_not_read_does_not_delay_a_shutdown() {
    let (mut process, _raw, _folder) = live(10);
    let began = Stopwatch::start();
    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(20)), Some(0));
    // The timeout of the shutdown is 10 s.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn authority_is_checked_as_host_is() {
    let (_app, key, certificate, _folder) = raw_server();
    let secret = format!("Bearer {}", key.key.as_deref().expect("a key"));
    let start = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/v1/pets"),
    ];
    let authorization = ("authorization", &*secret);
    let long = "a".repeat(256);
    for (fields, status) in [
        (vec![(":authority", "a.example")], 200),
        (vec![(":authority", "[::1]:8080")], 200),
        (vec![], 400),
        (vec![("host", "a.example")], 200),
        (vec![("host", "a b")], 400),
        (vec![(":authority", "user@a.example")], 400),
        (vec![(":authority", &long)], 400),
        (
            vec![(":authority", "a.example"), ("host", "a.example")],
            200,
        ),
        (vec![(":authority", "a.example"), ("host", "a b")], 400),
        (
            vec![(":authority", "a.example"), ("host", "a"), ("host", "a")],
            400,
        ),
    ] {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        let (pseudo, others): (Vec<_>, Vec<_>) = fields
            .iter()
            .copied()
            .partition(|(name, _)| name.starts_with(':'));
        let block = encode(&[&start[..], &pseudo, &[authorization], &others].concat());
        raw.send_frame(HEADERS, END_HEADERS | END_STREAM, 1, &block);
        let (got, body) = raw.response(1);
        assert_eq!(got, status, "{fields:?} {}", String::from_utf8_lossy(&body));
        if status == 400 {
            assert_eq!(code(&body), "invalid_parameter");
        }
    }
}

#[test]
fn malformed_requests_reset_their_stream_alone_and_malformed_fields_end_the_connection() {
    let (_app, key, certificate, _folder) = raw_server();
    let get = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/v1/pets"),
    ];
    for fields in [
        vec![("connection", "close")],
        vec![("transfer-encoding", "chunked")],
        vec![("te", "gzip")],
        vec![(":path", "/twice")],
    ] {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        let (pseudo, others): (Vec<_>, Vec<_>) = fields
            .iter()
            .copied()
            .partition(|(name, _)| name.starts_with(':'));
        let authority = [(":authority", "a.example")];
        let block = encode(&[&get[..], &authority, &pseudo, &others].concat());
        raw.send_frame(HEADERS, END_HEADERS | END_STREAM, 1, &block);
        let reset = raw
            .next_of(RST_STREAM)
            .unwrap_or_else(|| panic!("{fields:?}"));
        assert_eq!((reset.stream, reset.error()), (1, 1), "{fields:?}");
        raw.get(3, "/v1/pets");
        assert_eq!(raw.response(3).0, 200, "{fields:?}");
    }
    // A malformed field is an error of the connection.
    for field in [("Upper", "case"), (":unknown", "x")] {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        let block = encode(&[&get[..], &[field]].concat());
        raw.send_frame(HEADERS, END_HEADERS | END_STREAM, 1, &block);
        let away = raw.next_of(GOAWAY).expect("the end of the connection");
        assert_eq!(away.error(), 1, "{away:?}");
    }
}

#[test]
fn a_response_to_head_has_no_body_and_a_request_head_that_is_too_large_is_431() {
    let (_app, key, certificate, _folder) = raw_server();
    let mut raw = Raw::connect(&key, &certificate, &[]);
    let block = raw.head("HEAD", "/v1/pets", &[]);
    raw.send_frame(HEADERS, END_HEADERS | END_STREAM, 1, &block);
    let head = raw.next_of(HEADERS).expect("a response");
    assert!(head.has(END_STREAM), "{head:?}");
    let long = "x".repeat(16_000);
    let mut raw = Raw::connect(&key, &certificate, &[]);
    let block = raw.head(
        "GET",
        "/v1/pets",
        &[("x-long", &long), ("x-more", &long[..1_000])],
    );
    raw.send_frame(HEADERS, END_STREAM, 1, &block[..16_000]);
    raw.send_frame(CONTINUATION, END_HEADERS, 1, &block[16_000..]);
    let head = raw.next_of(HEADERS).expect("a response");
    assert_eq!(status_of(&head.payload), 431);
    assert!(head.has(END_STREAM), "{head:?}");
    raw.get(3, "/v1/pets");
    assert_eq!(raw.response(3).0, 200);
}

#[test]
fn a_body_that_is_too_large_is_413_immediately_and_the_connection_stays_open() {
    let (_app, key, certificate, _folder) = raw_server();
    for announced in [true, false] {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        let length: &[_] = if announced {
            &[("content-length", "50000")]
        } else {
            &[]
        };
        raw.post(1, length);
        if !announced {
            raw.send_frame(DATA, 0, 1, &[b' '; 16_384]);
            raw.send_frame(DATA, 0, 1, b"x");
        }
        let began = Instant::now();
        let (status, body) = raw.response(1);
        assert_eq!((status, &*code(&body)), (413, "body_too_large"));
        assert!(began.elapsed() < Duration::from_secs(5));
        raw.get(3, "/v1/pets");
        assert_eq!(raw.response(3).1, b"[]");
    }
}

#[test]
fn a_response_before_the_body_was_read_reaches_a_client_that_continues_to_send() {
    let (_app, key, certificate, _folder) = raw_server();
    let mut raw = Raw::connect(&key, &certificate, &[]);
    let block = raw.head("POST", "/v1/nothing", &[("content-length", "30")]);
    raw.send_frame(HEADERS, END_HEADERS, 1, &block);
    assert_eq!(raw.response(1).0, 404);
    raw.send_frame(DATA, END_STREAM, 1, &[b'x'; 30]);
    raw.get(3, "/v1/pets");
    // The stream has ended on both sides: there is nothing to reset.
    loop {
        let frame = raw.next().expect("a response");
        assert_ne!(frame.kind, RST_STREAM, "{frame:?}");
        if frame.stream == 3 && frame.has(END_STREAM) {
            break;
        }
    }
}

#[test]
fn a_creation_whose_stream_or_connection_ends_before_its_body_is_499() {
    let (mut app, key, certificate, _folder) = raw_server();
    let mut raw = Raw::connect(&key, &certificate, &[]);
    let head = raw.head("POST", "/v1/pets", &[("content-type", "application/json")]);
    let reset = |stream| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    let both = [frame(HEADERS, END_HEADERS, 1, &head), reset(1)];
    raw.send(&both.concat()).expect("sent");
    raw.post(3, &[]);
    raw.post(5, &[]);
    // Both wait for their bodies by then.
    raw.get(7, "/livez");
    assert_eq!(raw.response(7).0, 200);
    raw.send(&reset(3)).expect("sent");
    drop(raw);
    app.stop();
    let log = app.log();
    let creations = log.lines().filter(|line| line.contains("createPet"));
    let cancelled = creations.clone().filter(|line| line.contains("status=499"));
    assert_eq!((creations.count(), cancelled.count()), (3, 3), "{log}");
}

#[test]
fn a_shutdown_sends_goaway_completes_what_is_in_flight_and_does_not_wait_for_idle_clients() {
    let (mut app, key, certificate, _folder) = raw_server();
    let mut idle = Raw::connect(&key, &certificate, &[]);
    idle.get(1, "/v1/pets");
    assert_eq!(idle.response(1).0, 200);
    let mut busy = Raw::connect(&key, &certificate, &[]);
    busy.post(1, &[]);
    busy.send_frame(DATA, 0, 1, b"{\"name\":\"Rex\",");
    std::thread::sleep(Duration::from_millis(200));
    let stopping = std::thread::spawn(move || {
        let began = Instant::now();
        app.stop();
        began.elapsed()
    });
    for raw in [&mut idle, &mut busy] {
        let away = raw.next_of(GOAWAY).expect("a GOAWAY");
        assert_eq!(away.error(), 0, "{away:?}");
    }
    std::thread::sleep(Duration::from_millis(1_500));
    busy.send_frame(DATA, END_STREAM, 1, b"\"categoryId\":1}");
    let (status, body) = busy.response(1);
    assert_eq!(status, 201, "{}", String::from_utf8_lossy(&body));
    while busy.next().is_some() {}
    while idle.next().is_some() {}
    let took = stopping.join().expect("stopped");
    assert!(took < Duration::from_secs(5), "{took:?}");
}
