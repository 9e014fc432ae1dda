//! The first key of a new database: its secret is shown once, and a key whose secret cannot be shown is reported.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use harness::Process;

use crate::{FREE_PORTS, PROGRAM, folder, run};

#[test]
fn a_new_database_gets_a_first_key_that_is_shown_once_with_a_curl_line_that_works() {
    let folder = folder();
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    let startup_message = process.startup_message.clone();
    let line = startup_message
        .lines()
        .find(|line| line.trim_start().starts_with("curl "))
        .expect("a line to try");
    let tried = Command::new("sh")
        .args(["-c", line])
        .output()
        .expect("a shell");
    assert_eq!(String::from_utf8_lossy(&tried.stdout), "[]", "{tried:?}");
    assert!(tried.status.success());
    let key = startup_message
        .split_whitespace()
        .find(|word| word.starts_with("as_"))
        .expect("a key");
    assert_eq!(
        process
            .client(Some(key))
            .get("/v1/pets")
            .number("x-ratelimit-limit"),
        60
    );

    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(10)), Some(0));
    assert!(!process.log().contains(key), "the key is in the log");
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    assert!(
        !process.startup_message.contains("as_"),
        "{}",
        process.startup_message
    );
    assert_eq!(process.client(Some(key)).get("/v1/pets").status, 200);
}

#[test]
fn no_first_key_is_issued_with_no_first_key() {
    let folder = folder();
    let process = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    assert!(
        !process.startup_message.contains("as_"),
        "{}",
        process.startup_message
    );
    let list = run(folder.path(), &[], &["keys", "list", "--json"]).exits(0);
    assert_eq!(list.stdout.trim(), "[]");
}

#[test]
fn a_first_key_is_not_lost_when_the_port_is_taken_at_the_first_start() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let args = [
        "serve",
        "--listen",
        &address,
        "--admin-listen",
        "127.0.0.1:0",
    ];
    run(folder.path(), &[], &args).fails_with(1);
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    assert!(
        process.startup_message.contains("First API key"),
        "{}",
        process.startup_message
    );
}

#[test]
fn a_startup_that_fails_issues_no_first_key() {
    let folder = folder();
    // The fifth thread that the main thread starts is the first worker.
    let inject = "inject=clone3:error=EAGAIN:when=5";
    let strace = ["-f", "-qq", "-o", "/dev/null", "-e", inject];
    let args = [&strace[..], &[PROGRAM, "serve"], &FREE_PORTS].concat();
    harness::run("strace", folder.path(), &args).fails_with(1);
    let list = run(folder.path(), &[], &["keys", "list", "--json"]).exits(0);
    assert_eq!(list.stdout.trim(), "[]");
}

#[test]
fn a_signal_while_the_first_key_is_issued_does_not_keep_its_secret_from_being_shown() {
    let folder = folder();
    let ports = FREE_PORTS.join(" ");
    // SIGTERM comes during the first commit, and printing takes longer than the shutdown.
    let line = format!(
        "timeout 20 strace -f -qq -o /dev/null -P $PWD/animal-store.db-wal -P $PWD/shown \
         -e inject=fsync:signal=SIGTERM:delay_exit=300000:when=1 -e inject=write:delay_enter=500000:when=1 \
         {PROGRAM} serve {ports} > shown"
    );
    let output = harness::run("sh", folder.path(), &["-c", &line]).exits(0);
    assert!(output.stderr.contains("SIGTERM"), "{output:?}");
    let shown = std::fs::read_to_string(folder.path().join("shown")).expect("a file");
    assert!(shown.contains("First API key"), "{shown}");
}

#[test]
fn a_first_key_whose_secret_nobody_has_read_is_reported_at_the_end() {
    let folder = folder();
    let ports = FREE_PORTS.join(" ");
    // The reader reads nothing, and the pipe is full.
    let line = format!(
        "{{ head -c 65536 /dev/zero; timeout -s TERM 4 {PROGRAM} serve {ports} 2> log; }} | sleep 8"
    );
    harness::run("sh", folder.path(), &["-c", &line]).exits(0);
    let read = |name| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    let log = read("log");
    assert!(log.contains("keys rotate 1"), "{log}");
    assert!(log.contains("shutting down"), "{log}");
}

#[test]
fn a_server_that_cannot_issue_its_first_key_does_not_say_that_it_is_ready() {
    let folder = folder();
    let wal = folder.path().join("animal-store.db-wal");
    let wal = wal.to_str().expect("a path");
    let strace = ["-f", "-qq", "-o", "/dev/null", "-P", wal];
    let inject = ["-e", "inject=pwrite64:error=ENOSPC"];
    let args = [&strace[..], &inject, &[PROGRAM, "serve"], &FREE_PORTS].concat();
    let output = harness::run("strace", folder.path(), &args).exits(1);
    assert!(!output.stderr.contains(" ready "), "{output:?}");
    let last = output.stderr.lines().last();
    assert_eq!(
        last,
        Some(
            "animal-store: cannot issue the first key: cannot access the keys: the store is not available: database or disk is full"
        )
    );
}
