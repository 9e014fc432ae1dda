//! The memory that connections of HTTP/2 take, whatever their clients do.

use std::time::Duration;

use animal_store::page::{Cursor, Scope};
use harness::{Certificate, Client, Process};
use serde_json::json;

use crate::raw::*;
use crate::{folder, run, serve};

/// The memory of a process.
pub(crate) fn memory(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.expect("a figure").parse::<u64>().expect("a number") << 10
}

/// A server as a process of its own, a client with a key that no test exhausts, and its certificate.
pub(crate) fn process(args: &[&str]) -> (Process, Client, Certificate, tempfile::TempDir) {
    let folder = folder();
    let certificate = Certificate::new();
    certificate.write(folder.path());
    run(folder.path(), &["migrate"]).exits(0);
    let create = ["keys", "create", "--name", "test", "--plan", "enterprise"];
    let limits = ["--per-minute", "1000000000", "--per-day", "1000000000"];
    let key = run(folder.path(), &[&create[..], &limits].concat())
        .exits(0)
        .stdout;
    let process = serve(folder.path(), &[&["--log-level", "error"], args].concat());
    let client = process
        .client(Some(key.trim()))
        .over(&certificate.http2_client());
    (process, client, certificate, folder)
}

#[test]
fn large_heads_of_streams_whose_responses_are_not_read_cost_little() {
    let (process, key, certificate, _folder) = process(&["--max-connections-per-address", "500"]);
    let before = memory(&process);
    let large = "a".repeat(14_000);
    // Some are within the limit, and the others over it.
    let open: Vec<Raw> = (0..20)
        .map(|_| {
            let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0)]);
            raw.send_frame(SETTINGS, ACK, 0, &[]);
            let head = raw.head("GET", "/livez", &[("x-large", &large)]);
            for stream in (1..200).step_by(2) {
                raw.send_frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
            }
            raw
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(key.get("/v1/pets").status, 200);
    let more = memory(&process).saturating_sub(before) >> 20;
    println!("2,000 large heads: {more} MiB");
    assert!(more < 20, "{more} MiB");
    drop(open);
}

/// A frame of a kind that has no meaning, which fills a read buffer of the server.
pub(crate) fn filler() -> Vec<u8> {
    frame(0x16, 0, 0, &[0; 8 << 10])
}

#[test]
fn bodies_of_requests_whose_responses_are_not_read_cost_little() {
    let (process, key, certificate, _folder) = process(&[]);
    assert_eq!(key.get("/v1/pets").status, 200);
    let before = memory(&process);
    const MANY: u64 = 50;
    let parts = [filler(), frame(DATA, 0, 1, b"x")].concat();
    let open: Vec<Raw> = (0..MANY)
        .map(|_| {
            let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0)]);
            let head = raw.head("GET", "/livez", &[]);
            raw.send_frame(HEADERS, END_HEADERS, 1, &head);
            for _ in 0..100 {
                raw.send(&parts).expect("sent");
            }
            // All of it has been received.
            raw.send_frame(PING, 0, 0, &[1; 8]);
            assert!(raw.next_of(PING).is_some());
            raw
        })
        .collect();
    let each = memory(&process).saturating_sub(before) / MANY;
    println!("{each} bytes for each of {MANY} connections");
    assert!(each <= 192 << 10, "{each}");
    drop(open);
}

#[test]
fn trailers_of_requests_whose_responses_are_not_read_cost_little() {
    let (process, key, certificate, _folder) = process(&[]);
    assert_eq!(key.get("/v1/pets").status, 200);
    let before = memory(&process);
    const MANY: u64 = 1_000;
    let names: Vec<String> = (0..400).map(|number| format!("t{number}")).collect();
    let trailers: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let trailers = encode(&trailers);
    let open: Vec<Raw> = (0..MANY / 100)
        .map(|_| {
            let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0)]);
            let head = raw.head("GET", "/livez", &[]);
            for stream in (1..200).step_by(2) {
                raw.send_frame(HEADERS, END_HEADERS, stream, &head);
                raw.send_frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers);
            }
            raw.send_frame(PING, 0, 0, &[1; 8]);
            assert!(raw.next_of(PING).is_some());
            raw
        })
        .collect();
    let each = memory(&process).saturating_sub(before) / MANY;
    println!("{each} bytes for each of {MANY} streams");
    assert!(each <= 20 << 10, "{each}");
    drop(open);
}

/// Opens the windows of 100 streams by one byte each, again and again, and reads nothing. h2 keeps the memory for all frames that it
/// ever held at the same time.
#[test]
fn windows_that_are_opened_by_one_byte_at_a_time_cost_little() {
    let (process, key, certificate, _folder) = process(&[]);
    // One more than a page has: that is cached, and all streams share it.
    for _ in 0..101 {
        let made = key.create(&json!({"name": "a".repeat(255), "categoryId": 1}));
        assert_eq!(made.status, 201);
    }
    let before = memory(&process);
    const MANY: u64 = 10;
    let mut open: Vec<Raw> = (0..MANY)
        .map(|_| {
            let raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0)]);
            raw.set_receive_buffer(4_096);
            raw
        })
        .collect();
    for raw in &mut open {
        for stream in (1..200).step_by(2) {
            raw.get(stream, "/v1/pets?limit=100");
        }
    }
    let byte_more = |stream: u32| frame(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes());
    let byte_more: Vec<u8> = (1..200).step_by(2).flat_map(byte_more).collect();
    for _ in 0..500 {
        for raw in &mut open {
            raw.send(&byte_more).expect("sent");
        }
        // The server sends each byte before it gets the next window.
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(key.get("/v1/pets?limit=1").status, 200);
    let each = memory(&process).saturating_sub(before) / MANY;
    println!("{} KiB for each of {MANY} connections", each >> 10);
    assert!(each <= 1 << 20, "{each}");
    drop(open);
}

#[test]
fn an_idle_connection_costs_at_most_64_kib() {
    let (process, key, certificate, _folder) = process(&[]);
    for _ in 0..20 {
        assert_eq!(key.get("/v1/pets").status, 200);
    }
    let before = memory(&process);
    const MANY: u64 = 800;
    let open: Vec<Raw> = (0..MANY)
        .map(|_| {
            let mut raw = Raw::connect(&key, &certificate, &[]);
            raw.get(1, "/v1/pets");
            assert_eq!(raw.response(1).0, 200);
            raw
        })
        .collect();
    let each = memory(&process).saturating_sub(before) / MANY;
    println!("{each} bytes for each of {MANY} idle connections");
    assert!(each <= 64 << 10, "{each}");
    drop(open);
}

#[test]
fn large_pages_that_are_not_read_cost_little_whatever_their_windows() {
    let (process, key, certificate, _folder) = process(&["--max-connections-per-address", "10000"]);
    for _ in 0..200 {
        let made = key.create(&json!({"name": "🐕".repeat(255), "categoryId": 1}));
        assert_eq!(made.status, 201);
    }
    let before = memory(&process);
    let mut open = Vec::new();
    for window in [0, 1, 100_000] {
        for connection in 0..30 {
            let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, window)]);
            for number in 0..100_u32 {
                // No two pages are the same, so that none is shared.
                let after = i64::from((connection * 100 + number) % 100);
                let cursor = Cursor::after(after).bound_to(Scope::Pets(None));
                raw.get(
                    number * 2 + 1,
                    &format!("/v1/pets?limit=100&cursor={cursor}"),
                );
            }
            open.push(raw);
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(key.get("/v1/pets?limit=1").status, 200);
    let more = memory(&process).saturating_sub(before) >> 20;
    println!("9,000 pages on 90 connections: {more} MiB");
    assert!(more < 150, "{more} MiB");
    drop(open);
}
