//! The write-ahead log is moved into the database, and stays small: after an import that fails, on a full disk, and if the disk
//! rejects what is moved.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::{Process, eventually};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::disk::{add, recover, serve_under_strace};
use crate::import::count;
use crate::metrics::value;
use crate::{FREE_PORTS, PROGRAM, large_key, logged};

#[test]
fn a_write_ahead_log_that_has_grown_is_cut_to_64_mib() {
    const MIB: f64 = 1024.0 * 1024.0;
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let server = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    let client = server.client(Some(&key));
    let other = Connection::open(folder.path().join("animal-store.db")).expect("a file");
    let large = "CREATE TABLE large AS SELECT zeroblob(100 * 1024 * 1024) AS content";
    other.execute_batch(large).expect("space");
    assert!(value(&server, "animal_store_wal_bytes") > 100.0 * MIB);
    // What was written is moved into the database, and then the log is restarted.
    eventually(Duration::from_secs(20), "the log is small again", || {
        client.create_many(1);
        value(&server, "animal_store_wal_bytes") <= 64.0 * MIB
    });
}

#[test]
fn an_import_that_fails_late_shortens_the_write_ahead_log_again() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let import = |input: Stdio| {
        harness::command(PROGRAM)
            .args(["pets", "import", "-", "--keep-ids"])
            .current_dir(folder.path())
            .stdin(input)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs")
    };
    let server = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    // The next animal gets the ID 1,000,001, which is the last one that the import inserts.
    let line =
        |id: u32, name: &str| format!("{{\"id\":{id},\"name\":\"{name}\",\"categoryId\":1}}\n");
    let mut first = import(Stdio::piped());
    let input = first.stdin.take();
    let written = input
        .expect("a pipe")
        .write_all(line(1_000_000, "Rex").as_bytes());
    written.expect("it reads");
    assert!(first.wait().expect("an end").success());
    let mut late = import(Stdio::piped());
    let mut input = late.stdin.take().expect("a pipe");
    input
        .write_all(line(1_000_001, "Rex").as_bytes())
        .expect("it reads");
    // More than the 64 MiB that the log is cut to anyway.
    let name = "\u{1f98a}".repeat(255);
    for id in 1..90_000 {
        input
            .write_all(line(id, &name).as_bytes())
            .expect("it reads");
    }
    server.client(Some(&key)).create_many(1);
    drop(input);
    let output = late.wait_with_output().expect("an end");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("1000001"), "{error}");
    assert!(value(&server, "animal_store_wal_bytes") < 1024.0 * 1024.0);
}

#[test]
fn an_import_that_fills_the_disk_shortens_the_write_ahead_log_again() {
    let folder = TempDir::new().expect("a folder");
    let server = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    let line = json!({"name": "\u{1f98a}".repeat(255), "categoryId": 1}).to_string() + "\n";
    std::fs::write(folder.path().join("a.ndjson"), line.repeat(40_000)).expect("a file");
    let log = folder.path().join("animal-store.db-wal");
    // About 30 MB.
    let inject = "inject=pwrite64:error=ENOSPC:when=15000+";
    let strace = ["-f", "-o", "/dev/null", "-P", log.to_str().expect("text")];
    let import = ["-e", inject, PROGRAM, "pets", "import", "a.ndjson"];
    let failed = harness::run("strace", folder.path(), &[&strace[..], &import].concat());
    let line = failed.fails_with(1);
    assert!(line.contains("full"), "{line}");
    assert!(value(&server, "animal_store_wal_bytes") < 1024.0 * 1024.0);
}

#[test]
fn a_database_that_cannot_be_synced_ends_the_process_and_loses_no_animal() {
    for failing in ["fdatasync,fsync", "pwrite64"] {
        let folder = TempDir::new().expect("a folder");
        let key = large_key(folder.path());
        // Of the database alone: the log can be written and synced.
        let database = folder.path().join("animal-store.db");
        let database = database.to_str().expect("text");
        let inject = format!("inject={failing}:error=EIO");
        let mut process = serve_under_strace(&folder, &["-P", database, "-e", &inject]);
        let (acknowledged, _) = add(&process, &key, 3_000);
        assert!(acknowledged.len() < 3_000, "nothing was moved");
        assert_eq!(process.ends_within(Duration::from_secs(5)), Some(1));
        let log = logged(&process, &["cannot write to the database any more"]);
        assert!(log.contains("disk I/O error"), "{log}");
        let stored = count(folder.path());
        assert!(stored >= acknowledged.len() as i64, "{stored}");
    }
}

#[test]
fn a_disk_that_the_log_has_filled_is_written_again_once_no_reader_needs_the_log() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let ports = FREE_PORTS.join(" ");
    // In kilobytes. A log of more than a thousand pages, while the animals take less.
    let script = format!("ulimit -S -f 6000; exec {PROGRAM} serve {ports}");
    let process = Process::start("bash", folder.path(), &["-c", &script], &[]);
    let reader = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    let read = "BEGIN; SELECT count(*) FROM pets";
    reader.execute_batch(read).expect("a snapshot");
    let (mut acknowledged, last) = add(&process, &key, 5_000);
    assert_eq!(last, Some(503), "after {}", acknowledged.len());
    let (more, last) = add(&process, &key, 1);
    assert_eq!((more.len(), last), (0, Some(503)));
    reader.execute_batch("COMMIT").expect("an end");
    recover(&process, &key, &mut acknowledged);
    assert_eq!(count(folder.path()), acknowledged.len() as i64);
}

/// A server with its database in the folder `disk`, on a disk of this size that only it sees.
fn serve_on_small_disk(folder: &TempDir, size: &str) -> Process {
    let disk = format!("mkdir disk && mount -t tmpfs -o size={size} none disk");
    let serve = format!(
        "exec {PROGRAM} serve --no-first-key {}",
        FREE_PORTS.join(" ")
    );
    let script = format!("{disk} && mv animal-store.db* disk && cd disk && {serve}");
    Process::start("unshare", folder.path(), &["-m", "sh", "-c", &script], &[])
}

/// The arguments of `nsenter` for a command on that database.
fn beside(process: &Process, folder: &TempDir, command: &str) -> Vec<String> {
    let file = folder.path().join("disk/animal-store.db");
    let database = format!("--database=sqlite:{}", file.display());
    let enter = format!("-t {} -m {PROGRAM} {command}", process.id());
    enter
        .split(' ')
        .map(str::to_owned)
        .chain([database])
        .collect()
}

#[test]
fn an_import_for_whose_log_the_disk_would_have_no_room_imports_nothing() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let input = folder.path().join("a.ndjson");
    let line = "{\"name\":\"Rex\",\"categoryId\":1}\n";
    std::fs::write(&input, line.repeat(100_000)).expect("a file");
    // The log and the database file take 4.6 MB each, and the staged animals, which have no index, 2.2 MB.
    let process = serve_on_small_disk(&folder, "9m");
    let import = beside(
        &process,
        &folder,
        &format!("pets import {}", input.display()),
    );
    let import: Vec<&str> = import.iter().map(String::as_str).collect();
    let line = harness::run("nsenter", folder.path(), &import).fails_with(1);
    assert!(line.contains("bytes free, and"), "{line}");
    process.client(Some(&key)).create_many(10);
}

#[test]
fn a_log_that_a_reader_keeps_does_not_take_the_room_that_the_database_needs_later() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let process = serve_on_small_disk(&folder, "40m");
    let client = process.client(Some(&key));
    let name = "\u{1f98a}".repeat(255);
    let create = || {
        client
            .create(&json!({"name": &name, "categoryId": 1}))
            .status
    };
    // More than a pipe holds.
    let mut created = (0..300).filter(|_| create() == 201).count();
    let export = beside(&process, &folder, "pets export -");
    let export: Vec<&str> = export.iter().map(String::as_str).collect();
    let reader = harness::command("nsenter")
        .args(&export)
        .stdout(Stdio::piped())
        .spawn();
    let mut reader = reader.expect("it runs");
    let mut first = [0; 1];
    let read = reader.stdout.as_mut().expect("a pipe").read(&mut first);
    assert_eq!(read.expect("a row"), 1);
    let last = loop {
        match create() {
            201 => created += 1,
            last => break last,
        }
        assert!(created < 5_000, "the disk is not full");
    };
    assert_eq!(last, 503);
    let ready = || client.get("/readyz?verbose").json()["reasons"]["writer"] == "disk full";
    eventually(Duration::from_secs(2), "degraded", ready);
    let log = logged(
        &process,
        &["ERROR", "a part of the write-ahead log is not in"],
    );
    assert!(!log.contains("shutting down"), "{log}");
    // Usage is still stored, each second, also in a batch with creations.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2_500) {
        assert_eq!(create(), 503);
    }
    let failures = r#"animal_store_background_failures_total{task="flush"}"#;
    assert_eq!(value(&process, failures), 0.0);

    reader.kill().expect("a child");
    reader.wait().expect("an end");
    assert!((0..500).all(|_| create() == 201));
    created += 500;
    let exported = harness::run("nsenter", folder.path(), &export).exits(0);
    assert_eq!(exported.stdout.lines().count(), created);
}

#[test]
fn a_log_that_cannot_be_moved_at_the_end_is_an_error_of_the_shutdown() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let database = folder.path().join("animal-store.db");
    let database = database.to_str().expect("text");
    for error in ["EIO", "ENOSPC"] {
        let inject = format!("inject=pwrite64:error={error}");
        let mut process = serve_under_strace(&folder, &["-P", database, "-e", &inject]);
        let (acknowledged, _) = add(&process, &key, 3);
        assert_eq!(acknowledged.len(), 3);
        process.signal("TERM");
        assert_eq!(process.ends_within(Duration::from_secs(10)), Some(1));
        logged(&process, &["ERROR", "ending in -wal"]);
    }
    assert_eq!(count(folder.path()), 6);
}
