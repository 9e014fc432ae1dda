//! Floods of HTTP/2: the memory of the server is bounded, and others are served.

use std::time::{Duration, Instant};

use harness::Certificate;

use crate::http2_memory::{memory, process};
use crate::http2_slow::server;
use crate::raw::*;
use crate::{folder, logged, serve};

#[test]
fn a_malformed_path_or_host_is_not_logged_at_any_level() {
    let folder = folder();
    let certificate = Certificate::new();
    certificate.write(folder.path());
    let process = serve(folder.path(), &["--log-level", "trace"]);
    for (path, host) in [("/secret in a path", "a"), ("/", "secret in a host")] {
        let mut raw = Raw::connect(&process.client(None), &certificate, &[]);
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", path),
            (":authority", host),
        ];
        raw.send_frame(HEADERS, END_HEADERS | END_STREAM, 1, &encode(&fields));
        assert!(raw.next_of(RST_STREAM).is_some(), "{path} {host}");
    }
    // The log is in order.
    let client = process.client(None).over(&certificate.http2_client());
    assert_eq!(client.get("/v1/pets").status, 401);
    let log = logged(&process, &["401"]);
    assert!(!log.contains("secret"), "{log}");
}

/// Sends until the server closes the connection, at most this many times. Returns how often.
pub(crate) fn flood(raw: &mut Raw, times: usize, mut bytes: impl FnMut(usize) -> Vec<u8>) -> usize {
    (0..times)
        .find(|number| raw.send(&bytes(*number)).is_err())
        .unwrap_or(times)
}

#[test]
fn rapid_resets_end_their_connection_and_others_are_served() {
    let (process, key, certificate, _folder) = process(&[]);
    assert_eq!(key.get("/v1/pets").status, 200);
    let before = memory(&process);
    let began = Instant::now();
    for _ in 0..20 {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        let head = raw.head("GET", "/v1/pets", &[]);
        let sent = flood(&mut raw, 20_000, |number| {
            let mut both = Vec::new();
            // Many in one write, so that none is accepted before it is reset.
            for more in 0..100 {
                let stream = ((number * 100 + more) * 2 + 1) as u32;
                both.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
                both.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            }
            both
        });
        assert!(sent < 20_000, "never closed");
        let away = raw.next_of(GOAWAY);
        // It may be lost when the connection is reset.
        assert!(away.is_none_or(|away| away.error() == 11));
        assert_eq!(key.get("/v1/pets").status, 200);
    }
    let more = memory(&process).saturating_sub(before) >> 20;
    println!("20 floods in {:?}, {more} MiB", began.elapsed());
    assert!(more < 32, "{more} MiB");
}

#[test]
fn a_flood_of_continuation_frames_ends_its_connection() {
    let (process, key, certificate, _folder) = process(&[]);
    assert_eq!(key.get("/v1/pets").status, 200);
    let before = memory(&process);
    for size in [0, 1, 16_000] {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        let head = raw.head("GET", "/v1/pets", &[]);
        raw.send_frame(HEADERS, END_STREAM, 1, &head);
        let part = encode(&[("x", &"y".repeat(size))]);
        let frame = frame(CONTINUATION, 0, 1, if size == 0 { &[] } else { &part });
        let sent = flood(&mut raw, 1_000_000, |_| frame.clone());
        println!("frames of {size}: closed after {sent}");
        assert!(sent < 1_000_000, "never closed");
    }
    assert_eq!(key.get("/v1/pets").status, 200);
    assert!(memory(&process).saturating_sub(before) < 16 << 20);
}

#[test]
fn floods_of_settings_pings_and_empty_data_cost_little_memory() {
    let (process, key, certificate, _folder) =
        process(&["--request-timeout", "3s", "--idle-timeout", "3s"]);
    assert_eq!(key.get("/v1/pets").status, 200);
    let before = memory(&process);
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0x10, 0]);
    let ping = frame(PING, 0, 0, &[1; 8]);
    let empty = frame(DATA, 0, 1, &[]);
    for flooded in [settings, ping, empty] {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        raw.post(1, &[]);
        // The client never reads. Its own writes end when the buffers of the system are full.
        raw.set_write_timeout(Duration::from_secs(1));
        let many = flooded.repeat(1_000);
        let sent = flood(&mut raw, 2_000, |_| many.clone());
        println!("kind {}: {sent} thousand", flooded[3]);
        assert_eq!(key.get("/v1/pets").status, 200);
    }
    let more = memory(&process).saturating_sub(before) >> 20;
    assert!(more < 16, "{more} MiB");
}

#[test]
fn ten_thousand_streams_on_one_connection_are_limited_and_served() {
    let (process, key, certificate, _folder) = process(&[]);
    assert_eq!(key.get("/v1/pets").status, 200);
    let before = memory(&process);
    let mut raw = Raw::connect(&key, &certificate, &[]);
    let settings = raw.next_of(SETTINGS).expect("settings");
    // The table of HPACK, streams, the window of each, and the size of a head.
    for (name, limit) in [(1, 512), (3, 100), (4, 16 * 1024), (6, 16 * 1024)] {
        let mut limits = settings.payload.chunks(6);
        let found = limits.find(|setting| setting[..2] == [0, name]);
        assert_eq!(found.expect("a limit")[2..], u32::to_be_bytes(limit));
    }
    raw.send_frame(SETTINGS, ACK, 0, &[]);
    // As fast as they can be sent, a hundred at a time.
    let head = raw.head("GET", "/v1/pets", &[]);
    let mut ended = 0;
    for batch in 0..100 {
        let mut frames = Vec::new();
        for number in 0..100_u32 {
            let stream = (batch * 100 + number) * 2 + 1;
            frames.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
        }
        raw.send(&frames).expect("sent");
        // The window of the connection.
        raw.send_frame(WINDOW_UPDATE, 0, 0, &1_000_u32.to_be_bytes());
        while ended < (batch + 1) * 100 {
            let frame = raw.next().expect("a response");
            assert_ne!(frame.kind, RST_STREAM, "{frame:?}");
            ended += u32::from(frame.kind != SETTINGS && frame.has(END_STREAM) && frame.stream > 0);
        }
    }
    assert_eq!(ended, 10_000);
    // More at a time than are allowed: the rest is rejected, and the client may retry it.
    let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0)]);
    raw.next_of(SETTINGS).expect("settings");
    raw.send_frame(SETTINGS, ACK, 0, &[]);
    let send = |raw: &mut Raw, stream| {
        let head = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
        raw.send(&head)
    };
    for stream in (1..=221).step_by(2) {
        send(&mut raw, stream).expect("sent");
    }
    let rejected = raw.next_of(RST_STREAM).expect("a rejection");
    assert_eq!(
        (rejected.stream, rejected.error()),
        (201, 7),
        "{rejected:?}"
    );
    let ended = (223..=20_001)
        .step_by(2)
        .any(|stream| send(&mut raw, stream).is_err());
    assert!(ended, "never disconnected");
    assert_eq!(key.get("/v1/pets").status, 200);
    let more = memory(&process).saturating_sub(before) >> 20;
    println!("10,000 streams: {more} MiB");
    assert!(more < 16, "{more} MiB");
}

#[test]
fn streams_count_against_the_limits_of_connections() {
    let (_app, key, certificate, _folder) =
        server(|config| config.max_connections_per_address = 60);
    let stalled: Vec<Raw> = (0..2)
        .map(|_| {
            let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0)]);
            for stream in (1..200).step_by(2) {
                raw.get(stream, "/docs");
            }
            raw
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    // One at a time is always served.
    assert_eq!(key.get("/v1/pets").status, 200);
    let mut raw = Raw::connect(&key, &certificate, &[]);
    for stream in (1..200).step_by(2) {
        raw.post(stream, &[("content-length", "10")]);
    }
    let mut bodies = String::new();
    while !bodies.contains("unavailable") {
        let frame = raw.next().expect("a response");
        if frame.kind == DATA {
            bodies.push_str(&String::from_utf8_lossy(&frame.payload));
        }
    }
    drop((stalled, raw));
    harness::eventually(Duration::from_secs(5), "streams again", || {
        let mut raw = Raw::connect(&key, &certificate, &[]);
        for stream in (1..60).step_by(2) {
            raw.post(stream, &[("content-length", "0")]);
            raw.send_frame(DATA, END_STREAM, stream, &[]);
        }
        let bodies: Vec<String> = std::iter::from_fn(|| raw.next_of(DATA))
            .map(|frame| String::from_utf8_lossy(&frame.payload).into_owned())
            .take(30)
            .collect();
        bodies.iter().all(|body| body.contains("invalid_body"))
    });
}

#[test]
fn what_libraries_warn_of_is_not_logged() {
    let folder = folder();
    let certificate = Certificate::new();
    certificate.write(folder.path());
    let process = serve(folder.path(), &["--no-first-key"]);
    let client = process.client(None).over(&certificate.http2_client());
    let mut raw = Raw::connect(&client, &certificate, &[]);
    for number in 0..1_000_u64 {
        raw.send_frame(PING, ACK, 0, &number.to_be_bytes());
    }
    raw.get(1, "/v1/pets");
    assert_eq!(raw.response(1).0, 401);
    let log = logged(&process, &["status=401"]);
    assert!(!log.to_lowercase().contains("ping"), "{log}");
}
