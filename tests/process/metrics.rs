//! The metrics page: its formats, and the metrics that operators need.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use animal_store::clock::Clock;
use harness::{Client, Process, Response, eventually};
use serde_json::json;

use crate::sweep::while_locked;
use crate::{PROGRAM, folder, large_key};

fn page(admin: SocketAddr) -> Response {
    let page = Client::new(admin, None).get("/metrics");
    assert_eq!(page.status, 200, "{page}");
    page
}

fn text(page: Response) -> String {
    String::from_utf8(page.body).expect("text")
}

/// The value of a sample, named with its labels.
#[track_caller]
pub(crate) fn value(server: &Process, name: &str) -> f64 {
    value_at(server.admin, name)
}

/// The same of a server with this admin listener.
#[track_caller]
pub(crate) fn value_at(admin: SocketAddr, name: &str) -> f64 {
    let text = text(page(admin));
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {name}: {text}"));
    value.parse().expect("a number")
}

/// A server that has received requests of several kinds.
fn busy_server(folder: &std::path::Path) -> (Process, Client) {
    let key = large_key(folder);
    let server = Process::serve(PROGRAM, folder, &[]);
    let client = server.client(Some(&key));
    client.create_many(30);
    client.get("/v1/pets?limit=5");
    client.get("/v1/pets/1");
    client.with_key(None).get("/v1/pets");
    (server, client)
}

#[test]
fn promtool_finds_no_problems() {
    let folder = folder();
    let (server, _) = busy_server(folder.path());
    let page = page(server.admin);
    assert_eq!(
        page.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs: see ./test process");
    let mut input = promtool.stdin.take().expect("a pipe");
    input.write_all(&page.body).expect("it reads");
    drop(input);
    let found = promtool.wait_with_output().expect("an end");
    assert!(found.status.success(), "{found:?}");
    assert!(
        found.stdout.is_empty() && found.stderr.is_empty(),
        "{found:?}"
    );
}

#[test]
fn open_metrics_is_sent_on_request() {
    let folder = folder();
    let (server, _) = busy_server(folder.path());
    let requested = Client::new(server.admin, None)
        .request("GET", "/metrics")
        .header(
            "Accept",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        )
        .send();
    assert_eq!(
        requested.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert_eq!(requested.header("cache-control"), Some("no-store"));
    let requested = text(requested);
    assert!(requested.ends_with("# EOF\n"), "{requested}");
    assert!(
        requested.contains("# TYPE animal_store_requests counter\nanimal_store_requests_total{"),
        "{requested}"
    );
    let plain = text(page(server.admin));
    assert!(!plain.contains("# EOF"), "{plain}");
    assert!(
        plain.contains("# TYPE animal_store_requests_total counter\nanimal_store_requests_total{"),
        "{plain}"
    );
}

#[test]
fn the_docs_explain_exactly_the_background_tasks_whose_failures_are_counted() {
    let folder = folder();
    let server = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    let name = "animal_store_background_failures_total";
    let mut docs = include_str!("../../docs/operating.md").lines();
    let row = docs.find(|line| line.starts_with(&format!("| `{name}` |")));
    let row = row.expect("a row");
    let text = text(page(server.admin));
    let samples = text.lines().filter_map(|line| line.strip_prefix(name));
    let tasks: Vec<&str> = samples.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(tasks.contains(&"poll"), "{text}");
    // A name in the row is followed by its explanation in parentheses.
    let parts: Vec<&str> = row.split('`').collect();
    let explained = parts.windows(2).filter(|pair| pair[1].starts_with(" ("));
    let explained: BTreeSet<&str> = explained.map(|pair| pair[0]).collect();
    assert_eq!(explained, tasks.into_iter().collect());
}

#[test]
fn a_preflight_and_a_page_that_was_not_modified_are_counted_with_their_status() {
    let folder = folder();
    let args = ["--no-first-key", "--cors-origin", "*"];
    let server = Process::serve(PROGRAM, folder.path(), &args);
    let client = server.client(None);
    let preflight = client.request("OPTIONS", "/v1/pets");
    let preflight = preflight
        .header("Origin", "https://shop.example")
        .header("Access-Control-Request-Method", "GET");
    assert_eq!(preflight.send().status, 204);
    let page = client.request("GET", "/docs").header("If-None-Match", "*");
    assert_eq!(page.send().status, 304);
    for labels in [
        r#"operation="preflight",status="204""#,
        r#"operation="docs",status="304""#,
    ] {
        let name = format!("animal_store_requests_total{{{labels}}}");
        assert_eq!(value(&server, &name), 1.0);
    }
}

#[test]
fn the_page_has_the_metrics_that_operators_need() {
    let folder = folder();
    let (server, client) = busy_server(folder.path());
    let listed = r#"animal_store_requests_total{operation="listPets",status="200"}"#;
    assert_eq!(value(&server, listed), 1.0);
    assert_eq!(
        value(&server, r#"animal_store_cache_entries{kind="animals"}"#),
        1.0
    );
    assert_eq!(
        value(&server, r#"animal_store_cache_entries{kind="pages"}"#),
        1.0
    );
    assert!(value(&server, r#"animal_store_cache_bytes{kind="pages"}"#) > 100.0);
    assert!(value(&server, "animal_store_wal_bytes") > 0.0);
    assert_eq!(value(&server, "animal_store_waiting_writes"), 0.0);
    assert_eq!(value(&server, "animal_store_log_lines_lost_total"), 0.0);
    assert!(value(&server, "animal_store_keys_age_seconds") < 5.0);
    assert_eq!(value(&server, "animal_store_ready"), 1.0);
    let check = |labels: &str| value(&server, &format!("animal_store_check_state{{{labels}}}"));
    assert_eq!(check(r#"check="store",state="ready""#), 1.0);
    assert_eq!(check(r#"check="store",state="failed""#), 0.0);
    let limit = value(&server, "animal_store_max_connections");
    assert!(
        server
            .startup_message
            .contains(&format!("{limit} connections")),
        "{limit}: {}",
        server.startup_message
    );
    assert!(value(&server, "process_resident_memory_bytes") > 1e6);
    assert!(value(&server, "process_cpu_seconds_total") > 0.0);
    let started = value(&server, "process_start_time_seconds");
    let age = Clock::system().now().as_millis() as f64 / 1e3 - started;
    assert!((0.0..60.0).contains(&age), "{age}");
    let (open, most) = (
        value(&server, "process_open_fds"),
        value(&server, "process_max_fds"),
    );
    assert!(open > 5.0 && open < most, "{open} of {most}");

    let connections: Vec<_> = (0..7)
        .map(|_| {
            let mut connection = client.connect();
            let request = client.request("GET", "/v1/pets/1");
            assert_eq!(request.send_on(&mut connection).status, 200);
            connection
        })
        .collect();
    eventually(Duration::from_secs(5), "seven connections", || {
        value(&server, "animal_store_open_connections") == 7.0
    });
    assert!(value(&server, "process_open_fds") >= open + 7.0);
    drop(connections);
    eventually(Duration::from_secs(5), "no connection", || {
        value(&server, "animal_store_open_connections") == 0.0
    });
}

#[test]
fn connections_commits_and_durations_are_counted_in_their_units() {
    const LOCKED: Duration = Duration::from_secs(1);
    let folder = folder();
    let (server, client) = busy_server(folder.path());
    let names = [
        "animal_store_connections_total",
        "animal_store_commits_total",
        "animal_store_commit_rows_sum",
        r#"animal_store_request_duration_seconds_count{operation="createPet"}"#,
        r#"animal_store_request_duration_seconds_sum{operation="createPet"}"#,
    ];
    let before = names.map(|name| value(&server, name));
    while_locked(folder.path(), LOCKED, || client.create_many(1));
    client.create_many(3);
    let after = names.map(|name| value(&server, name));
    let added: Vec<f64> = after
        .iter()
        .zip(before)
        .map(|(new, old)| new - old)
        .collect();
    // Other commits store usage.
    assert!((4.0..20.0).contains(&added[1]), "{added:?}");
    assert_eq!([added[0], added[2], added[3]], [4.0; 3]);
    assert!((0.8..10.0).contains(&added[4]), "{added:?}");
}

#[test]
fn creations_that_wait_are_on_the_page() {
    let folder = folder();
    let (server, client) = busy_server(folder.path());
    let other = rusqlite::Connection::open(folder.path().join("animal-store.db")).expect("a file");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    std::thread::scope(|scope| {
        let create = || client.create(&json!({"name": "Rex", "categoryId": 1}));
        // The writer takes the first one, and waits for the lock.
        scope.spawn(create);
        std::thread::sleep(Duration::from_millis(200));
        for _ in 0..5 {
            scope.spawn(create);
        }
        eventually(Duration::from_secs(2), "creations that wait", || {
            value(&server, "animal_store_waiting_writes") >= 3.0
        });
        other.execute_batch("ROLLBACK").expect("no lock");
    });
    assert_eq!(value(&server, "animal_store_waiting_writes"), 0.0);
}
