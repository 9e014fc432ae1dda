//! The program as its operators run it: what it does when it is killed, stopped, misconfigured or given a file that it
//! cannot use; when clients are slow, disks fail and secrets are sent to the wrong place.
//! Each test is named by the sentence it proves.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue has failed"
)]

mod backup;
mod backup_failures;
mod backups;
mod calls;
mod checkpoint;
mod clients;
mod commands;
mod completions;
mod config;
mod config_file;
mod copy;
mod crash;
mod disk;
mod early;
mod faults;
mod files;
mod first_key;
mod foreign;
mod format;
mod healthcheck;
mod idle;
mod import;
mod import_created;
mod lifecycle;
mod memory;
mod metrics;
mod one_server;
mod output;
mod overload;
mod packaging;
mod permission;
mod ports;
mod questions;
mod readiness;
mod rejection;
mod request_log;
mod restart;
mod restore;
mod secret_files;
mod secrets;
mod shared;
mod signals;
mod slow;
mod stalled;
mod sweep;
mod systemd;
mod waits;

use std::path::Path;
use std::time::Duration;

use harness::{Output, Process, eventually};
use tempfile::TempDir;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// Free ports, for a server that is started without the harness.
const FREE_PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

/// Runs the program with these variables to its end.
fn run(folder: &Path, vars: &[(&str, &str)], args: &[&str]) -> Output {
    let vars: Vec<String> = vars
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut all: Vec<&str> = vars.iter().map(String::as_str).collect();
    all.push(PROGRAM);
    all.extend(args);
    harness::run("env", folder, &all)
}

/// Issues a key that no test exhausts, in a database that is created if there is none.
fn large_key(folder: &Path) -> String {
    run(folder, &[], &["migrate"]).exits(0);
    let args = ["keys", "create", "--name", "test", "--plan", "enterprise"];
    let limits = ["--per-minute", "1000000000", "--per-day", "1000000000"];
    let output = run(folder, &[], &[&args[..], &limits].concat()).exits(0);
    output.stdout.trim().to_owned()
}

/// Waits until the log has a line with all of these texts, and returns all that was logged until then.
#[track_caller]
fn logged(process: &Process, words: &[&str]) -> String {
    let mut log = String::new();
    eventually(
        Duration::from_secs(5),
        &format!("a line with {words:?}"),
        || {
            log.push_str(&process.log());
            log.lines()
                .any(|line| words.iter().all(|word| line.contains(word)))
        },
    );
    log
}
