//! A server while nothing happens.

use std::time::Duration;

use harness::Process;

use crate::{PROGRAM, folder, logged};

#[test]
fn the_log_sleeps_while_nothing_is_logged() {
    let folder = folder();
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    // The lines of the start are written.
    logged(&process, &["ready"]);
    std::thread::sleep(Duration::from_millis(200));
    let before = process.waits_of("log");
    std::thread::sleep(Duration::from_secs(1));
    let woken = process.waits_of("log") - before;
    assert!(woken <= 1, "woken {woken} times in a second");
    process.client(None).get("/v1/pets");
    logged(&process, &["status=401"]);
}
