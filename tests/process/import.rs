//! `pets import` and `export` on the embedded database: creations that wait for an import, and disks that are full or fail.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use harness::{Process, load_during_imports};
use rusqlite::Connection;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use tempfile::TempDir;

use crate::calls::{killed_at_each, names};
use crate::{PROGRAM, folder, large_key, run};

pub(super) const DATABASE: &str = "animal-store.db";

pub(super) fn count(folder: &Path) -> i64 {
    let connection = Connection::open(folder.join(DATABASE)).expect("a database");
    let count = connection.query_row("SELECT count(*) FROM pets", (), |row| row.get(0));
    count.expect("a count")
}

/// A folder with a database and a file of this many animals.
pub(super) fn with_animals(count: usize) -> TempDir {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    let line = "{\"name\":\"a name of some length, as animals have\",\"categoryId\":1}\n";
    fs::write(folder.path().join("a.ndjson"), line.repeat(count)).expect("a file");
    folder
}

#[test]
fn creations_wait_for_an_import_longer_than_for_any_other_lock() {
    let folder = folder();
    let key = large_key(folder.path());
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let other = Connection::open(folder.path().join(DATABASE)).expect("a database");
    let client = server.client(Some(&key));
    let create = || {
        let animal = json!({"name": "Rex", "categoryId": 1});
        client.create(&animal).status
    };
    // As an import does it: one lock on its own file, and then the lock of a writer.
    let lock = File::create(folder.path().join("animal-store.db.import")).expect("a file");
    for (imports, status) in [(true, 201), (false, 503)] {
        let operation = match imports {
            true => FlockOperation::LockExclusive,
            false => FlockOperation::Unlock,
        };
        flock(&lock, operation).expect("a lock");
        other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        std::thread::scope(|scope| {
            let created = scope.spawn(create);
            // A creation waits two seconds for any other process.
            std::thread::sleep(Duration::from_secs(4));
            assert_eq!(created.is_finished(), !imports);
            other.execute_batch("COMMIT").expect("no lock");
            assert_eq!(created.join().expect("a response"), status);
        });
    }
    assert_eq!(create(), 201);
}

#[test]
fn an_export_of_a_file_at_rest_has_no_animal_that_was_changed_meanwhile() {
    const ANIMALS: usize = 20_000;
    let folder = with_animals(ANIMALS);
    run(folder.path(), &[], &["pets", "import", "a.ndjson"]).exits(0);
    let mut export = harness::command(PROGRAM)
        .args(["pets", "export", "-"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("an export");
    let mut rows = BufReader::new(export.stdout.take().expect("a pipe")).lines();
    let first = rows.next().expect("a row").expect("text");
    assert!(first.contains("of some length"), "{first}");
    // The pipe is full. When the last connection is closed, the file itself is changed.
    let other = Connection::open(folder.path().join(DATABASE)).expect("a database");
    let changed = other.execute("UPDATE pets SET name = 'changed'", ());
    assert_eq!(changed.expect("animals"), ANIMALS);
    other.close().expect("the file is closed");
    for row in rows {
        let row = row.expect("text");
        assert!(!row.contains("changed"), "{row}");
    }
    let ended = export.wait_with_output().expect("an end");
    let error = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(
        error.ends_with("the database was changed while it was read: try again\n"),
        "{error}"
    );
}

#[test]
fn a_server_shuts_down_in_time_while_an_import_is_suspended() {
    let folder = folder();
    let key = large_key(folder.path());
    let mut server = Process::serve(PROGRAM, folder.path(), &[]);
    let other = Connection::open(folder.path().join(DATABASE)).expect("a database");
    let lock = File::create(folder.path().join("animal-store.db.import")).expect("a file");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let client = server.client(Some(&key));
    std::thread::scope(|scope| {
        let created = scope.spawn(|| {
            client
                .create(&json!({"name": "Rex", "categoryId": 1}))
                .status
        });
        std::thread::sleep(Duration::from_secs(1));
        server.signal("TERM");
        assert_eq!(server.ends_within(Duration::from_secs(15)), Some(1));
        assert_eq!(created.join().expect("a response"), 503);
    });
    let log = server.log();
    assert!(
        log.contains("cannot store the usage and the bans recorded since the last flush"),
        "{log}"
    );
}

#[test]
fn during_an_import_no_creation_is_rejected_and_the_99th_percentile_of_reads_stays_below_three_times_plus_20_ms()
 {
    let folder = with_animals(100_000);
    let key = large_key(folder.path());
    let server = Process::serve(PROGRAM, folder.path(), &["--log-level", "warn"]);
    let client = server.client(Some(&key));
    let all = load_during_imports(100_000, &client, &client, || {
        run(folder.path(), &[], &["pets", "import", "a.ndjson"]).exits(0);
    });
    assert_eq!(count(folder.path()), all);
}

#[test]
fn a_disk_that_is_full_imports_nothing_and_leaves_no_file() {
    let folder = with_animals(20_000);
    let before = names(folder.path());
    let aside = TempDir::new().expect("a folder");
    let calls = aside.path().join("calls");
    let calls = calls.to_str().expect("text");
    // While rows are staged, and while they are copied.
    for first in [40, 350] {
        let inject = format!("inject=pwrite64:error=ENOSPC:when={first}+");
        let strace = ["-f", "-o", calls, "-e", &inject];
        let import = [PROGRAM, "pets", "import", "a.ndjson"];
        let output = harness::run("strace", folder.path(), &[&strace[..], &import].concat());
        let line = output.fails_with(1);
        assert!(
            line.contains("cannot import a.ndjson: ") && line.contains("disk is full"),
            "{first}: {line}"
        );
        assert_eq!(count(folder.path()), 0, "{first}");
        assert_eq!(names(folder.path()), before, "{first}");
    }
    run(folder.path(), &[], &["pets", "import", "a.ndjson"]).exits(0);
    assert_eq!(count(folder.path()), 20_000);
    assert_eq!(names(folder.path()), before);
}

#[test]
fn an_import_whose_commit_could_not_be_synced_has_an_unknown_outcome() {
    let folder = with_animals(3);
    let log = format!("{}-wal", folder.path().join(DATABASE).display());
    // The first one is that of the header of the log, before the commit.
    let inject = "inject=fsync,fdatasync:error=EIO:when=2+";
    let strace = ["-f", "-o", "/dev/null", "-P", &log, "-e", inject];
    let import = [PROGRAM, "pets", "import", "a.ndjson"];
    let output = harness::run("strace", folder.path(), &[&strace[..], &import].concat());
    assert_eq!(
        output.fails_with(1),
        "animal-store: a.ndjson: disk I/O error; whether the animals were imported is unknown: look for them before you import them again"
    );
}

#[test]
fn an_export_to_a_disk_that_fails_is_one_line_and_leaves_no_file() {
    let folder = with_animals(100);
    run(folder.path(), &[], &["pets", "import", "a.ndjson"]).exits(0);
    let before = names(folder.path());
    let shell = format!("exec {PROGRAM} pets export - > /dev/full");
    let output = harness::run("sh", folder.path(), &["-c", &shell]);
    let line = output.fails_with(1);
    assert!(
        line.contains("cannot write to standard output: No space left"),
        "{line}"
    );
    let aside = TempDir::new().expect("a folder");
    let calls = aside.path().join("calls");
    let inject = [
        "-f",
        "-o",
        calls.to_str().expect("text"),
        "-e",
        "inject=fsync:error=EIO",
    ];
    let export = [PROGRAM, "pets", "export", "b.csv"];
    let output = harness::run("strace", folder.path(), &[&inject[..], &export].concat());
    let line = output.fails_with(1);
    assert!(line.contains("cannot write b.csv: Input/output"), "{line}");
    assert_eq!(names(folder.path()), before);
}

#[test]
fn an_export_of_a_database_at_rest_creates_no_file_next_to_it() {
    let folder = with_animals(1_200);
    run(folder.path(), &[], &["pets", "import", "a.ndjson"]).exits(0);
    let before = names(folder.path());
    let output = run(folder.path(), &[], &["pets", "export", "-"]).exits(0);
    assert_eq!(output.stdout.lines().count(), 1_200);
    assert_eq!(names(folder.path()), before);
}

#[test]
#[ignore = "long: ./test --long"]
fn an_import_of_very_large_files_takes_little_memory() {
    let folder = folder();
    let mut import = harness::command(PROGRAM)
        .args(["pets", "import", "-"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut input = import.stdin.take().expect("a pipe");
    let animal = json!({"name": "🦊".repeat(250), "categoryId": 1});
    // About 100 MB, of which at most a few batches are in memory.
    for _ in 0..100_000 {
        writeln!(input, "{animal}").expect("it reads");
    }
    drop(input);
    let mut peak = 0;
    while import.try_wait().expect("a process").is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", import.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        // A process that has ended has no memory any more.
        if let Some(kib) = line.and_then(|line| line.trim().strip_suffix(" kB")) {
            peak = kib.parse::<u64>().expect("a number");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(import.wait().expect("an end").success());
    assert!((1..160_000).contains(&peak), "{peak} kB");
}

#[test]
fn an_import_that_is_killed_at_any_moment_is_there_as_a_whole_or_not_at_all() {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    let line = "{\"name\":\"Rex\",\"categoryId\":1}\n";
    std::fs::write(folder.path().join("a.ndjson"), line.repeat(3)).expect("a file");
    let import = ["pets", "import", "a.ndjson"];
    let mut counts = BTreeSet::new();
    let killed = killed_at_each(folder.path(), &import, |folder, when| {
        let animals = || {
            let export = run(folder, &[], &["pets", "export", "-"]).exits(0);
            export.stdout.lines().count()
        };
        let before = animals();
        counts.insert(before);
        run(folder, &[], &import).exits(0);
        assert_eq!(animals(), before + 3, "{when}");
        let left = names(folder);
        assert!(
            !left.iter().any(|name| name.contains("staged")),
            "{when}: {left:?}"
        );
    });
    assert!(
        killed.contains("fsync") && killed.contains("pwrite64"),
        "{killed:?}"
    );
    assert_eq!(counts, [0, 3].into());
}

#[test]
fn an_import_and_a_backup_on_a_terminal_show_a_bar() {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    let line = "{\"name\":\"a name of some length, as animals have\",\"categoryId\":1}\n";
    std::fs::write(folder.path().join("a.ndjson"), line.repeat(50_000)).expect("a file");
    // Enough that a backup is still running when the first progress bar is drawn.
    crate::backup::fill(folder.path(), 200_000);
    for (command, parts) in [
        ("pets import a.ndjson", ["importing", "/s, ", " left"]),
        ("backup copy.db", ["backing up", "/s, ", " left"]),
    ] {
        let command = format!("stty cols 120; exec {PROGRAM} {command}");
        let (code, shown) = harness::on_terminal(folder.path(), &command, &[], "");
        assert_eq!(code, Some(0), "{shown}");
        let has_all = |bar: &str| parts.iter().all(|part| bar.contains(part));
        assert!(shown.split('\r').any(has_all), "{shown:?}");
    }
}
