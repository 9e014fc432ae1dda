//! A system that allows few open files.

use std::fs;
use std::time::Duration;

use harness::{Connection, Process, eventually};
use serde_json::json;

use crate::{PROGRAM, folder, large_key, logged};

/// The number of connections in the startup lines.
fn connections(process: &Process) -> usize {
    let line = process
        .startup_message
        .lines()
        .find_map(|line| line.strip_prefix("  limit     "));
    let number = line.and_then(|line| line.strip_suffix(" connections"));
    let number = number.unwrap_or_else(|| panic!("{}", process.startup_message));
    number.parse().expect("a number")
}

#[test]
fn with_few_files_the_limit_on_connections_leaves_room_for_the_data() {
    let folder = folder();
    let key = large_key(folder.path());
    let serve = format!(
        "ulimit -n 256; exec {PROGRAM} serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0"
    );
    let process = Process::start("bash", folder.path(), &["-c", &serve], &[]);
    let most = connections(&process);
    assert!((64..=192).contains(&most), "{most}");
    let client = process.client(Some(&key));
    let animal = json!({"name": "Rex", "categoryId": 1});
    let create = |connection: &mut Connection| {
        let request = client.request("POST", "/v1/pets").json(&animal);
        assert_eq!(request.send_on(connection).status, 201);
        // Not cached: it is read from the data.
        let request = client.request("GET", "/v1/pets?limit=100&status=pending");
        assert_eq!(request.send_on(connection).status, 200);
    };
    let mut open: Vec<Connection> = (0..most).map(|_| client.connect()).collect();
    open.iter_mut().for_each(create);
    // More than the limit: those that have been idle longest are evicted.
    let mut more: Vec<Connection> = (0..most).map(|_| client.connect()).collect();
    more.iter_mut().for_each(create);
    assert_eq!(process.client(None).get("/readyz").status, 200);
    let log = process.log();
    assert!(
        log.contains(&format!("max_connections={most}")) && !log.contains("cannot accept"),
        "{log}"
    );
    let warning = "WARN the open-file limit allows fewer connections than --max-connections";
    assert!(log.contains(warning), "{log}");
}

#[test]
fn files_are_reserved_for_every_worker_and_the_soft_limit_is_raised_for_them() {
    let folder = folder();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let reserved = 256 + 16 * workers;
    for (soft, hard, wanted, granted) in [
        (1_000, 1_000, 1_000, 1_000 - reserved),
        // Enough without the files that are reserved for the workers, so the soft limit is raised.
        (700 + 256, 4_000, 700, 700),
    ] {
        let serve = format!(
            "ulimit -S -n {soft}; ulimit -H -n {hard}; exec {PROGRAM} serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
             --max-connections {wanted}"
        );
        let process = Process::start("bash", folder.path(), &["-c", &serve], &[]);
        assert_eq!(connections(&process), granted);
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id()));
        let limits = limits.expect("limits");
        let line = limits.lines().find(|line| line.starts_with("Max open"));
        let soft = line.and_then(|line| line.split_whitespace().nth(3));
        assert_eq!(soft, Some(&*(granted + reserved).to_string()), "{limits}");
    }
}

#[test]
fn the_startup_lines_show_the_limit_of_connections() {
    let folder = folder();
    let mut process = Process::serve(PROGRAM, folder.path(), &["--max-connections", "77"]);
    assert_eq!(connections(&process), 77);
    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(15)), Some(0));
    assert!(process.log().contains("max_connections=77"));
}

#[test]
fn a_server_without_a_file_for_a_connection_logs_that_once_and_serves_when_there_is_one() {
    let folder = folder();
    let process = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    let (id, client) = (process.id().to_string(), process.client(None));
    let allow = |files: &str| {
        harness::run("prlimit", folder.path(), &["--pid", &id, files]).exits(0);
    };
    // A thread that is still starting needs descriptors, too.
    let threads = || {
        fs::read_dir(format!("/proc/{id}/task"))
            .expect("threads")
            .count()
    };
    eventually(Duration::from_secs(20), "all threads run", || {
        let before = threads();
        std::thread::sleep(Duration::from_millis(500));
        threads() == before
    });
    allow("--nofile=5:");
    let mut waiting = client.connect();
    let mut log = logged(&process, &["WARN cannot accept connections", "os error 24"]);
    allow("--nofile=1000:");
    let request = client.request("GET", "/livez");
    assert_eq!(request.send_on(&mut waiting).status, 200);
    // An outage has ended when no accept has failed for five seconds.
    eventually(Duration::from_secs(20), "the end is logged", || {
        assert_eq!(client.get("/livez").status, 200);
        log += &process.log();
        log.contains("INFO accepting connections again")
    });
    assert_eq!(log.matches("cannot accept").count(), 1, "{log}");
}
