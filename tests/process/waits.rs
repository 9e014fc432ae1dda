//! Commands that wait for a lock of another process: what ends the wait, and what may happen to the files meanwhile.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::eventually;
use rusqlite::Connection;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::calls::names;
use crate::copy::COPY;
use crate::import::{DATABASE, count, with_animals};
use crate::{PROGRAM, folder, run};

const WAITS_FOR_LOCK: &str = "animal-store: waiting up to 30 s for the database lock";

/// Starts an import, waits until it prints that it waits, and stops it.
#[track_caller]
fn waits_until_a_signal(folder: &Path, wanted: &str, signal: &str) {
    let args = ["pets", "import", "a.ndjson"];
    let last = stopped_while_it_waits(folder, &args, wanted, signal);
    let stopped = format!("animal-store: stopped by SIG{signal}: nothing was imported");
    assert_eq!(last, stopped);
}

/// The same with any command. Returns its last line.
#[track_caller]
fn stopped_while_it_waits(folder: &Path, args: &[&str], wanted: &str, signal: &str) -> String {
    fails_after_wait(folder, args, wanted, |command| {
        let id = command.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.expect("kill runs").success());
    })
}

/// Starts a command, waits until it prints that it waits, and acts. Returns its last line.
#[track_caller]
fn fails_after_wait(
    folder: &Path,
    args: &[&str],
    wanted: &str,
    act: impl FnOnce(&Child),
) -> String {
    let command = harness::command(PROGRAM)
        .args(args)
        .current_dir(folder)
        .stderr(Stdio::piped())
        .spawn();
    let mut command = command.expect("it runs");
    let mut lines = BufReader::new(command.stderr.take().expect("a pipe")).lines();
    let waits = lines.next().expect("a line").expect("text");
    assert!(waits.starts_with(wanted), "{waits}");
    act(&command);
    let mut ended = None;
    eventually(Duration::from_secs(5), "it ends", || {
        ended = command.try_wait().expect("a process");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(1));
    lines.next().expect("a line").expect("text")
}

#[test]
fn an_import_that_waits_for_a_command_that_creates_the_database_ends_with_a_signal() {
    let folder = folder();
    let line = "{\"name\":\"Rex\",\"categoryId\":1}\n";
    fs::write(folder.path().join("a.ndjson"), line).expect("a file");
    // As `migrate` does it.
    let mut lock = File::create(folder.path().join("animal-store.db.lock")).expect("a file");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    let holder = format!("{} elsewhere command\n", std::process::id());
    lock.write_all(holder.as_bytes()).expect("written");
    waits_until_a_signal(folder.path(), WAITS_FOR_LOCK, "INT");
    assert_eq!(names(folder.path()), ["a.ndjson", "animal-store.db.lock"]);
    drop(lock);
    run(folder.path(), &[], &["pets", "import", "a.ndjson"]).exits(0);
    assert_eq!(count(folder.path()), 1);
}

#[test]
fn an_import_that_waits_for_another_process_ends_with_a_signal() {
    let folder = with_animals(3);
    let lock = File::create(folder.path().join("animal-store.db.import")).expect("a file");
    let other = Connection::open(folder.path().join(DATABASE)).expect("a database");
    for waits_for_import in [true, false] {
        match waits_for_import {
            true => flock(&lock, FlockOperation::LockExclusive).expect("a lock"),
            false => {
                flock(&lock, FlockOperation::Unlock).expect("no lock");
                other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
            }
        }
        let wanted = match waits_for_import {
            true => "animal-store: waiting for another import or a copy to finish",
            false => WAITS_FOR_LOCK,
        };
        waits_until_a_signal(folder.path(), wanted, "TERM");
    }
    other.execute_batch("COMMIT").expect("no lock");
    assert_eq!(count(folder.path()), 0);
    run(folder.path(), &[], &["pets", "import", "a.ndjson"]).exits(0);
    assert_eq!(count(folder.path()), 3);
}

#[test]
#[ignore = "long: ./test --long"]
fn an_import_waits_for_another_one_however_long_that_takes() {
    let folder = with_animals(3);
    let lock = File::create(folder.path().join("animal-store.db.import")).expect("a file");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    std::thread::scope(|scope| {
        let import = scope.spawn(|| run(folder.path(), &[], &["pets", "import", "a.ndjson"]));
        // Longer than any command waits for another lock.
        std::thread::sleep(Duration::from_secs(33));
        flock(&lock, FlockOperation::Unlock).expect("no lock");
        import.join().expect("an end").exits(0);
    });
    assert_eq!(count(folder.path()), 3);
}

/// Two databases, and the lock of the one that `COPY` writes.
fn with_locked_target() -> (TempDir, Connection) {
    let folder = folder();
    for database in ["sqlite:animal-store.db", "sqlite:new.db"] {
        run(folder.path(), &[], &["migrate", "--database", database]).exits(0);
    }
    let other = Connection::open(folder.path().join("new.db")).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    (folder, other)
}

#[test]
fn a_copy_that_waits_for_another_process_says_so_and_ends_with_a_signal() {
    let (folder, other) = with_locked_target();
    let last = stopped_while_it_waits(folder.path(), &COPY, WAITS_FOR_LOCK, "TERM");
    assert_eq!(last, "animal-store: stopped by SIGTERM: nothing was copied");
    drop(other);
    run(folder.path(), &[], &COPY).exits(0);
}

#[test]
fn a_copy_to_a_file_that_is_moved_meanwhile_is_not_reported_as_done() {
    let (folder, other) = with_locked_target();
    let name = |name: &str| folder.path().join(name);
    let last = fails_after_wait(folder.path(), &COPY, WAITS_FOR_LOCK, |_| {
        fs::rename(name("new.db"), name("moved.db")).expect("it is moved");
        drop(other);
    });
    assert_eq!(
        last,
        "animal-store: --to: the store failed: new.db was moved or removed while it was in use"
    );
}
