//! A server while nothing happens.

use std::fs;
use std::path::Path;
use std::time::Duration;

use harness::Process;

use crate::{PROGRAM, folder, logged};

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// How often a thread has waited.
fn waits(thread: &Path) -> u64 {
    let status = read(&thread.join("status"));
    let line = status.lines().find(|line| line.starts_with("voluntary"));
    let count = line.and_then(|line| line.split_whitespace().last());
    count.expect("a count").parse().expect("a number")
}

#[test]
fn the_log_sleeps_while_nothing_is_logged() {
    let folder = folder();
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    let threads = fs::read_dir(format!("/proc/{}/task", process.id()));
    let mut threads = threads.expect("threads").flatten().map(|it| it.path());
    let log = threads.find(|thread| read(&thread.join("comm")) == "log\n");
    let log = log.expect("the thread of the log");
    // The lines of the start are written.
    logged(&process, &["ready"]);
    std::thread::sleep(Duration::from_millis(200));
    let before = waits(&log);
    std::thread::sleep(Duration::from_secs(1));
    let woken = waits(&log) - before;
    assert!(woken <= 1, "woken {woken} times in a second");
    process.client(None).get("/v1/pets");
    logged(&process, &["status=401"]);
}
