//! The database that `pets import` creates: when it appears, and that a failed import leaves none.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::{Process, eventually};
use serde_json::json;

use crate::calls::names;
use crate::import::{DATABASE, count};
use crate::{PROGRAM, folder, large_key, run};

/// An import from a pipe, which stays open, into a database that does not exist yet. Returns when that is created,
/// and the first rows are staged.
fn import_into_new_database(mut program: Command, folder: &Path) -> Child {
    let import = program
        .args(["pets", "import", "-"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut import = import.expect("it runs");
    let input = import.stdin.as_mut().expect("a pipe");
    // As many as are read before it is created.
    let lines = "{\"name\":\"Rex\",\"categoryId\":1}\n".repeat(2_000);
    input.write_all(lines.as_bytes()).expect("it reads");
    let files = format!("/proc/{}/fd", import.id());
    eventually(Duration::from_secs(10), "rows are staged", || {
        let mut files = fs::read_dir(&files).expect("a process").flatten();
        let is_staged = |name: &Path| name.to_string_lossy().contains(".db.staged");
        files.any(|file| fs::read_link(file.path()).is_ok_and(|name| is_staged(&name)))
    });
    import
}

/// Ends it with a bad line.
fn fail(mut import: Child) {
    let mut input = import.stdin.take().expect("a pipe");
    input.write_all(b"x\n").expect("it reads");
    drop(input);
    let output = import.wait_with_output().expect("an end");
    let line = String::from_utf8_lossy(&output.stderr);
    assert!(
        line.contains("standard input, line 2001: not valid JSON"),
        "{line}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_import_that_fails_leaves_no_database_that_it_has_created_unless_somebody_uses_it() {
    let new = folder();
    fail(import_into_new_database(
        harness::command(PROGRAM),
        new.path(),
    ));
    assert_eq!(names(new.path()), [""; 0]);

    let with_server = folder();
    let import = import_into_new_database(harness::command(PROGRAM), with_server.path());
    let server = Process::serve(PROGRAM, with_server.path(), &[]);
    fail(import);
    let key = large_key(with_server.path());
    let animal = json!({"name": "Rex", "categoryId": 1});
    assert_eq!(server.client(Some(&key)).create(&animal).status, 201);

    let with_key = folder();
    let import = import_into_new_database(harness::command(PROGRAM), with_key.path());
    let key = large_key(with_key.path());
    fail(import);
    let server = Process::serve(PROGRAM, with_key.path(), &[]);
    assert_eq!(server.client(Some(&key)).create(&animal).status, 201);

    // One that has replaced it is not its own.
    let replaced = folder();
    let import = import_into_new_database(harness::command(PROGRAM), replaced.path());
    fs::create_dir(replaced.path().join("old")).expect("a folder");
    for file in names(replaced.path())
        .iter()
        .filter(|name| name.starts_with(DATABASE))
    {
        let old = replaced.path().join("old").join(file);
        match fs::rename(replaced.path().join(file), old) {
            // One that existed for a moment only.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            moved => moved.expect("it is moved"),
        }
    }
    run(replaced.path(), &[], &["migrate"]).exits(0);
    fail(import);
    assert_eq!(names(replaced.path()), [DATABASE, "old"]);

    // One that was there, though empty, is not its own.
    let empty = folder();
    fs::write(empty.path().join(DATABASE), "").expect("a file");
    fs::write(empty.path().join("a.ndjson"), "x").expect("a file");
    run(empty.path(), &[], &["pets", "import", "a.ndjson"]).exits(1);
    assert_eq!(names(empty.path()), ["a.ndjson", DATABASE]);
}

#[test]
fn an_import_into_a_database_that_is_moved_meanwhile_is_not_reported_as_done() {
    let folder = folder();
    let mut import = import_into_new_database(harness::command(PROGRAM), folder.path());
    let moved = folder.path().join("moved.db");
    fs::rename(folder.path().join(DATABASE), moved).expect("it is moved");
    drop(import.stdin.take());
    let output = import.wait_with_output().expect("an end");
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(
        line.contains("was moved or removed while it was in use"),
        "{line}"
    );
}

#[test]
fn a_lost_terminal_ends_an_import_like_any_signal_unless_it_is_to_survive_that() {
    let folder = folder();
    let hang_up = |import: &Child| {
        let id = import.id().to_string();
        for _ in 0..3 {
            let sent = Command::new("kill").args(["-HUP", &id]).status();
            assert!(sent.expect("kill runs").success());
        }
    };
    // The tests themselves may run with nohup.
    let mut terminal = Command::new("env");
    terminal.args(["--default-signal=HUP", PROGRAM]);
    let import = import_into_new_database(terminal, folder.path());
    hang_up(&import);
    let output = import.wait_with_output().expect("an end");
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        line,
        "animal-store: stopped by SIGHUP: nothing was imported\n"
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(names(folder.path()), [""; 0]);

    let mut nohup = Command::new("nohup");
    nohup.arg(PROGRAM);
    let mut import = import_into_new_database(nohup, folder.path());
    hang_up(&import);
    drop(import.stdin.take());
    let output = import.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(count(folder.path()), 2_000);
}

#[test]
fn a_database_is_not_created_before_a_good_row_is_read() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("bad.ndjson"), "x\n").expect("a file");
    fs::write(path.join("bad.csv"), "name,categoryId\nRex,\n\"Tom,2\n").expect("a file");
    for (file, line) in [("bad.ndjson", "line 1: "), ("bad.csv", "line 2: ")] {
        // This database cannot be created, which is noticed only when it would be.
        let import = ["pets", "import", file, "--database", "sqlite:no/b.db"];
        let rejected = run(path, &[], &import).fails_with(1);
        assert!(rejected.contains(line), "{rejected}");
    }
}
