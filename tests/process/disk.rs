//! A disk that fails, as `strace` makes the system calls of the real program fail.

use std::time::Duration;

use harness::{Process, eventually};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::calls::{killed_at_each, names};
use crate::metrics::value;
use crate::{FREE_PORTS, PROGRAM, large_key, logged, run};

/// Starts a server whose system calls fail as `inject` says. Calls are counted for each thread: only the writer makes
/// that many.
fn serve_with_failing_calls(folder: &TempDir, inject: &str) -> Process {
    serve_under_strace(folder, &["-e", &format!("inject={inject}")])
}

pub(crate) fn serve_under_strace(folder: &TempDir, options: &[&str]) -> Process {
    // -D: the program stays our child, and strace is not its parent.
    let strace = ["-D", "-f", "-o", "calls"];
    let serve = [PROGRAM, "serve", "--no-first-key"];
    let args = [&strace[..], options, &serve, &FREE_PORTS].concat();
    Process::start("strace", folder.path(), &args, &[])
}

/// Adds animals until one is rejected, at most this many. Returns those that were acknowledged, and the last status, if there
/// was a response.
pub(crate) fn add(process: &Process, key: &str, max: usize) -> (Vec<Value>, Option<u16>) {
    let client = process.client(Some(key));
    let mut connection = client.connect();
    let mut acknowledged = Vec::new();
    let mut last = None;
    while acknowledged.len() < max {
        let animal = json!({"name": format!("pet {}", acknowledged.len()), "categoryId": 1});
        let request = client.request("POST", "/v1/pets").json(&animal);
        let Ok(response) = request.try_send_on(&mut connection) else {
            return (acknowledged, None);
        };
        last = Some(response.status);
        if response.status != 201 {
            break;
        }
        acknowledged.push(response.json());
    }
    (acknowledged, last)
}

fn stored(folder: &TempDir, key: &str) -> Vec<Value> {
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    let list = process.client(Some(key)).get("/v1/pets?limit=100").json();
    list.as_array().expect("a list").clone()
}

#[test]
fn a_write_whose_sync_fails_is_not_acknowledged_and_ends_the_process_with_exit_1() {
    for (first, error) in [(3, "EIO"), (8, "EIO"), (8, "EDQUOT")] {
        let folder = TempDir::new().expect("a folder");
        let key = large_key(folder.path());
        let calls = format!("fdatasync,fsync:error={error}:when={first}+");
        let mut process = serve_with_failing_calls(&folder, &calls);
        let (acknowledged, last) = add(&process, &key, 100);
        assert!(acknowledged.len() < 100, "no sync failed");
        // Not 500, which means that the animal was not created.
        assert!(last.is_none_or(|status| status == 503), "{last:?}");
        assert_eq!(process.ends_within(Duration::from_secs(5)), Some(1));
        let log = logged(&process, &["animal-store: the writer has stopped"]);
        assert!(log.contains("disk I/O error"), "{log}");
        // The one that failed may have reached the file before its sync failed; those acknowledged must have.
        let stored = stored(&folder, &key);
        assert!(stored.starts_with(&acknowledged), "{stored:#?}");
        assert!(stored.len() <= acknowledged.len() + 1, "{stored:#?}");
    }
}

/// Reads, and tries to create animals, until that succeeds again.
#[track_caller]
pub(crate) fn recover(process: &Process, key: &str, acknowledged: &mut Vec<Value>) {
    for _ in 0..40 {
        let reader = process.client(Some(key));
        assert_eq!(reader.get("/v1/pets").status, 200, "reads continue");
        let (more, last) = add(process, key, 5);
        acknowledged.extend(more);
        if last == Some(201) {
            return;
        }
        assert_eq!(last, Some(503));
    }
    panic!("it does not recover");
}

#[test]
fn a_write_on_a_full_disk_gets_503_and_is_stored_when_there_is_space_again() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let mut process = serve_with_failing_calls(&folder, "pwrite64:error=ENOSPC:when=40..44");
    let (mut acknowledged, last) = add(&process, &key, 100);
    assert_eq!(last, Some(503), "after {}", acknowledged.len());
    recover(&process, &key, &mut acknowledged);
    process.kill();
    assert_eq!(stored(&folder, &key), acknowledged);
}

#[test]
fn a_write_beyond_a_disk_quota_gets_503_like_one_on_a_full_disk() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    // Two for each transaction: the write itself, and the one that finds out why it failed.
    let mut process = serve_with_failing_calls(&folder, "pwrite64:error=EDQUOT:when=40..79");
    let (mut acknowledged, last) = add(&process, &key, 100);
    assert_eq!(last, Some(503), "after {}", acknowledged.len());
    let rejected = process
        .client(Some(&key))
        .create(&json!({"name": "Rex", "categoryId": 1}));
    rejected.is_error(503, "unavailable");
    assert!(!rejected.message().contains("may have"), "{rejected}");
    eventually(Duration::from_secs(1), "degraded", || {
        let ready = process.client(None).get("/readyz?verbose").json();
        ready["reasons"]["writer"] == "disk full"
    });
    let log = logged(
        &process,
        &["ERROR", "the disk is full: Disk quota exceeded"],
    );
    assert!(!log.contains("shutting down"), "{log}");
    recover(&process, &key, &mut acknowledged);
    let left = names(folder.path());
    assert!(!left.iter().any(|name| name.contains(".new-")), "{left:?}");
    process.kill();
    assert_eq!(stored(&folder, &key), acknowledged);
}

#[test]
fn a_disk_that_hangs_is_logged_and_shown_and_the_write_that_waits_is_stored() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let calls = "fdatasync,fsync:delay_enter=15000000:when=8";
    let process = serve_with_failing_calls(&folder, calls);
    let state = || process.client(None).get("/readyz?verbose").json();
    std::thread::scope(|scope| {
        let client = process.client(Some(&key));
        let rex = json!({"name": "Rex", "categoryId": 1});
        let adding = scope.spawn(move || [(); 20].map(|()| client.create(&rex).status));
        eventually(Duration::from_secs(15), "degraded", || {
            state()["reasons"]["writer"] == "a write is taking longer than 5 s"
        });
        assert_eq!(state()["checks"]["writer"], "degraded");
        assert_eq!(process.client(Some(&key)).get("/v1/pets").status, 200);
        logged(&process, &["ERROR", "the disk may be hanging"]);
        assert!(!adding.is_finished(), "it was acknowledged before its sync");
        assert_eq!(adding.join().expect("the statuses"), [201; 20]);
    });
    let log = logged(&process, &["INFO", "succeed again", "failed=0"]);
    assert_eq!(log.matches("ERROR").count(), 0, "{log}");
    assert_eq!(state()["checks"]["writer"], "ready");
}

#[test]
fn a_failed_write_on_a_disk_that_has_space_ends_the_process_with_exit_1() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let mut process = serve_with_failing_calls(&folder, "pwrite64:error=EIO:when=40");
    let (acknowledged, _) = add(&process, &key, 100);
    assert_eq!(process.ends_within(Duration::from_secs(5)), Some(1));
    let log = logged(&process, &["animal-store: the writer has stopped"]);
    assert!(log.contains("disk I/O error"), "{log}");
    assert_eq!(stored(&folder, &key), acknowledged);
}

#[test]
fn a_full_disk_is_logged_once_when_it_begins_and_once_when_it_ends_and_readiness_reports_it_meanwhile()
 {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let process = serve_with_failing_calls(&folder, "pwrite64:error=ENOSPC:when=40..240");
    // Readiness is at most a second old.
    let becomes = |state: &str, reason: Value| {
        eventually(Duration::from_secs(1), state, || {
            let ready = process.client(None).get("/readyz?verbose");
            assert_eq!(ready.status, 200, "{ready}");
            let ready = ready.json();
            ready["checks"]["writer"] == state && ready["reasons"]["writer"] == reason
        });
    };
    becomes("ready", Value::Null);
    let (_, last) = add(&process, &key, 100);
    assert_eq!(last, Some(503));
    becomes("degraded", json!("disk full"));
    let failed = process
        .client(Some(&key))
        .create(&json!({"name": "Rex", "categoryId": 1}));
    let id = failed.header("x-request-id").expect("an ID").to_owned();
    let degraded = r#"animal_store_check_state{check="writer",state="degraded"}"#;
    assert_eq!(value(&process, degraded), 1.0);
    assert_eq!(value(&process, "animal_store_ready"), 1.0);
    assert!(value(&process, "animal_store_commit_failures_total") >= 1.0);
    let mut rejected = 1_u32;
    while add(&process, &key, 1).1 == Some(503) {
        rejected += 1;
        assert!(rejected < 1_000, "it does not recover");
    }
    assert!(rejected > 20, "{rejected}");
    becomes("ready", Value::Null);
    assert_eq!(value(&process, degraded), 0.0);
    let failures = value(&process, "animal_store_commit_failures_total");
    assert!(failures >= f64::from(rejected), "{failures} of {rejected}");
    let log = logged(&process, &["writes to the database succeed again"]);
    let (requests, events): (Vec<&str>, Vec<&str>) = log
        .lines()
        .partition(|line| line.contains(" INFO request "));
    // The line of each request has the cause.
    let id = format!(" id={id} ");
    let line = requests.iter().find(|line| line.contains(&id));
    assert!(
        line.is_some_and(|line| line.contains(" status=503 ") && line.contains("disk is full")),
        "{log}"
    );
    let lines = |text: &str| events.iter().filter(|line| line.contains(text)).count();
    // The task that stores usage logs once that it fails, too.
    let counts = [
        "ERROR",
        "disk is full",
        "writes to the database succeed again",
    ]
    .map(lines);
    assert!(counts[0] == 1 && counts[1] <= 2 && counts[2] == 1, "{log}");
}

#[test]
fn a_new_file_whose_creation_was_interrupted_is_created_by_the_next_command_which_removes_the_leftovers()
 {
    let folder = TempDir::new().expect("a folder");
    let killed = killed_at_each(folder.path(), &["migrate"], |folder, when| {
        large_key(folder);
        let mut left = names(folder);
        // The lock file of a process that has ended means nothing.
        left.retain(|name| name != "animal-store.db.lock");
        assert_eq!(left, ["animal-store.db"], "{when}");
    });
    for call in ["pwrite64", "fsync", "unlink", "renameat2", "ftruncate"] {
        assert!(killed.contains(call), "never killed at {call}: {killed:?}");
    }
}

#[test]
fn an_error_that_fails_every_creation_is_logged_once_when_it_begins_and_once_when_it_ends() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let server = Process::serve(PROGRAM, folder.path(), &["--log-level", "info"]);
    let client = server.client(Some(&key));
    let sql_client = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    let reject =
        "CREATE TRIGGER broken BEFORE INSERT ON pets BEGIN SELECT RAISE(ABORT, 'broken'); END";
    sql_client.execute_batch(reject).expect("a trigger");
    let pet = json!({"name": "Rex", "categoryId": 1});
    let fail = || {
        for _ in 0..5 {
            assert_eq!(client.create(&pet).status, 500);
        }
    };
    fail();
    let mut log = logged(&server, &["ERROR", "cannot write to the database"]);
    fail();
    sql_client
        .execute_batch("DROP TRIGGER broken")
        .expect("no trigger");
    assert_eq!(client.create(&pet).status, 201);
    log.push_str(&logged(
        &server,
        &["INFO", "writes to the database succeed again"],
    ));
    let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), 1, "{log}");
    assert!(errors[0].contains("cannot write to the database"), "{log}");
}

#[test]
fn a_command_that_reaches_a_limit_on_the_size_of_files_fails_with_a_message_and_leaves_no_file() {
    let folder = TempDir::new().expect("a folder");
    large_key(folder.path());
    let migrate = "migrate --database sqlite:copy.db";
    let copy = "copy --from sqlite:animal-store.db --to sqlite:copy.db";
    let import = "pets import a.ndjson --database sqlite:copy.db";
    // A file of animals is larger.
    crate::backup::fill(folder.path(), 20_000);
    run(folder.path(), &[], &["pets", "export", "a.ndjson"]).exits(0);
    let limited = "(ulimit -f)";
    // In kilobytes. A new database has less than a hundred.
    for (limit, command, reason) in [
        (8, "backup copy.db", limited),
        (8, "pets export copy.db.csv", "File too large"),
        (8, migrate, limited),
        (1_000, copy, limited),
        (1_000, import, limited),
    ] {
        let script = format!("ulimit -f {limit}; exec {PROGRAM} {command}");
        let line = harness::run("bash", folder.path(), &["-c", &script]).fails_with(1);
        assert!(line.contains(reason), "{command}: {line}");
        let mut left = names(folder.path());
        left.retain(|name| name.starts_with("copy.db"));
        assert_eq!(left, [""; 0], "{command}");
    }
}

#[test]
fn a_creation_that_reaches_a_limit_on_the_size_of_files_gets_503_like_one_on_a_full_disk() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let ports = FREE_PORTS.join(" ");
    // In kilobytes.
    let script = format!("ulimit -S -f 1000; exec {PROGRAM} serve {ports}");
    let mut process = Process::start("bash", folder.path(), &["-c", &script], &[]);
    // Keeps the write-ahead log from being restarted.
    let reader = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    let read = "BEGIN; SELECT count(*) FROM pets";
    reader.execute_batch(read).expect("a snapshot");
    let (mut acknowledged, last) = add(&process, &key, 5_000);
    assert_eq!(last, Some(503), "after {}", acknowledged.len());
    let log = logged(&process, &["ERROR", "limit on the size of files"]);
    assert!(!log.contains("shutting down"), "{log}");
    let client = process.client(Some(&key));
    for _ in 0..5 {
        assert_eq!(client.get("/v1/pets").status, 200, "reads continue");
        let (more, last) = add(&process, &key, 1);
        assert_eq!((more.len(), last), (0, Some(503)));
    }
    let id = process.id().to_string();
    let lift = ["--pid", &id, "--fsize=unlimited:unlimited"];
    harness::run("prlimit", folder.path(), &lift).exits(0);
    let (more, last) = add(&process, &key, 5);
    assert_eq!(last, Some(201));
    acknowledged.extend(more);
    process.kill();
    let stored = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    let count = "SELECT count(*) FROM pets";
    let count = stored.query_row(count, (), |row| row.get::<_, i64>(0));
    assert_eq!(count.expect("a count"), acknowledged.len() as i64);
}
