//! `animal-store restore` and a signal: it stops before the first change, or finishes.

use std::process::{Command, Stdio};
use std::time::Duration;

use harness::Output;
use rusqlite::Connection;

use super::{IN_BACKUP, IN_DATABASE, SOURCE, animals_served, kept, with_backup};
use crate::PROGRAM;
use crate::calls::names;

/// Restores with SIGTERM at one system call, and a delay at a later one, so that the signal has arrived by then.
fn restore_with_signal(folder: &std::path::Path, at: &str, before: &str) -> Output {
    let signal = format!("inject={at}:signal=SIGTERM:when=1");
    let delay = format!("inject={before}:delay_enter=500000:when=1");
    let strace = ["-f", "-o", "/dev/null", "-e", &signal, "-e", &delay];
    let restore = [PROGRAM, "restore", "monday.db", "--yes"];
    harness::run("strace", folder, &[&strace[..], &restore].concat())
}

#[test]
fn a_signal_at_the_end_of_the_checks_stops_a_restore() {
    let (folder, _) = with_backup();
    let mut before = names(folder.path());
    // The lock of the server that was killed is no longer needed.
    before.retain(|name| !name.ends_with(".lock"));
    // The copy is on disk, then it is checked, then it gets its owner.
    let line = restore_with_signal(folder.path(), "fsync", "fchown").fails_with(1);
    assert_eq!(
        line,
        "animal-store: stopped by SIGTERM: nothing was restored"
    );
    assert_eq!(names(folder.path()), before);
    assert_eq!(animals_served(folder.path()), IN_DATABASE);
}

#[test]
fn a_signal_after_the_first_change_comes_too_late_and_the_restore_says_so() {
    let (folder, _) = with_backup();
    let late = restore_with_signal(folder.path(), "linkat", "rename,renameat").exits(0);
    assert_eq!(
        late.stderr,
        "animal-store: SIGTERM came too late to stop the restore, which is complete\n"
    );
    assert!(
        late.stdout.starts_with("restored animal-store.db"),
        "{late:?}"
    );
    assert_eq!(animals_served(folder.path()), IN_BACKUP);
    assert_eq!(kept(folder.path()).len(), 1);
}

#[test]
fn a_restore_that_waits_for_another_process_stops_with_a_signal() {
    let (folder, _) = with_backup();
    let other = Connection::open(folder.path().join(SOURCE)).expect("a database");
    let read = "BEGIN; SELECT * FROM pets";
    other.execute_batch(read).expect("a read");
    let restore = harness::command(PROGRAM)
        .args(["restore", "monday.db", "--yes"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn();
    let restore = restore.expect("it runs");
    // By now it waits, for up to ten seconds.
    std::thread::sleep(Duration::from_secs(2));
    let id = restore.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status();
    assert!(sent.expect("kill runs").success());
    std::thread::sleep(Duration::from_secs(2));
    other.execute_batch("COMMIT").expect("an end");
    drop(other);
    let output = restore.wait_with_output().expect("an end");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "animal-store: stopped by SIGTERM: nothing was restored\n"
    );
    assert_eq!(animals_served(folder.path()), IN_DATABASE);
    assert_eq!(kept(folder.path()).len(), 0);
}
