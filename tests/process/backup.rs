//! `animal-store backup`: complete and consistent while a server writes, or absent.

mod overwrite;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use harness::{Output, Process, StopOnDrop, creations, figures};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::calls::{disk_full_from_each, names};
use crate::{PROGRAM, folder, large_key, run};

/// The name of the database, unless the operator chooses another.
const SOURCE: &str = "animal-store.db";

/// A folder with a database, and one key in it.
fn with_database() -> TempDir {
    let folder = folder();
    large_key(folder.path());
    folder
}

/// The IDs of the animals in a database.
fn animals(path: &Path) -> Vec<i64> {
    let connection = Connection::open(path).expect("a database");
    let mut ids = connection
        .prepare("SELECT id FROM pets ORDER BY id")
        .expect("a table");
    let ids = ids.query_map((), |row| row.get(0)).expect("rows");
    ids.collect::<Result<_, _>>().expect("IDs")
}

/// Runs a backup under strace, with these options, which writes the calls to `calls` outside the folder.
fn traced(folder: &Path, calls: &Path, options: &[&str]) -> Output {
    let calls = calls.to_str().expect("text");
    let args = ["-f", "-y", "-o", calls];
    let backup = [PROGRAM, "backup", "copy.db"];
    harness::run("strace", folder, &[&args, options, &backup].concat())
}

#[test]
fn a_backup_beside_a_server_that_writes_has_everything_acknowledged_before_it_and_no_gap() {
    let folder = folder();
    let key = large_key(folder.path());
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let (last, done) = (AtomicI64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let client = server.client(Some(&key));
        scope.spawn(|| {
            let client = client;
            let mut connection = client.connect();
            while !done.load(Ordering::SeqCst) {
                let animal = json!({"name": "Rex", "categoryId": 1});
                let request = client.request("POST", "/v1/pets").json(&animal);
                let response = request.try_send_on(&mut connection).expect("a response");
                assert_eq!(response.status, 201);
                let id = response.json()["id"].as_i64().expect("an ID");
                last.store(id, Ordering::SeqCst);
            }
        });
        // Also if this thread panics: the scope waits for the other one.
        let _stop = StopOnDrop(&done);
        for round in 0..5 {
            let acknowledged = last.load(Ordering::SeqCst);
            let name = format!("copy-{round}.db");
            let output = run(folder.path(), &[], &["backup", &name, "--json"]).exits(0);
            let (path, later) = (folder.path().join(&name), last.load(Ordering::SeqCst));
            let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
            assert_eq!(report["file"], name);
            assert_eq!(report["bytes"], path.metadata().expect("a file").len());
            assert!(report["seconds"].is_f64(), "{report}");
            assert_eq!(output.stderr, "");
            let ids = animals(&path);
            let count = i64::try_from(ids.len()).expect("few");
            assert_eq!(ids, (1..=count).collect::<Vec<_>>());
            // One more may be committed whose response is on its way.
            assert!(
                (acknowledged..=later + 1).contains(&count),
                "{acknowledged} {count} {later}"
            );
        }
    });
    drop(server);

    // It is a database like any other: a server continues with it.
    let other = TempDir::new().expect("a folder");
    fs::copy(folder.path().join("copy-4.db"), other.path().join(SOURCE)).expect("a copy");
    let server = Process::serve(PROGRAM, other.path(), &[]);
    let client = server.client(Some(&key));
    assert_eq!(client.get("/v1/pets?limit=1").status, 200);
}

#[test]
fn a_backup_of_a_database_at_rest_is_reported_in_one_line_and_leaves_no_other_file() {
    let folder = with_database();
    let before = names(folder.path());
    let output = run(folder.path(), &[], &["backup", "copy.db"]).exits(0);
    let bytes = folder.path().join("copy.db").metadata().expect("a file");
    let line = format!("backed up {SOURCE} to copy.db: {} bytes in ", bytes.len());
    assert!(output.stdout.starts_with(&line), "{output:?}");
    let mut after = names(folder.path());
    after.retain(|name| name != "copy.db");
    assert_eq!(after, before);
}

#[test]
fn a_database_of_an_earlier_format_is_backed_up_as_it_is() {
    let folder = with_database();
    let source = Connection::open(folder.path().join(SOURCE)).expect("a database");
    source
        .execute_batch("DROP TABLE deployment; PRAGMA user_version = 3")
        .expect("an earlier format");
    drop(source);
    run(folder.path(), &[], &["backup", "copy.db"]).exits(0);
    let copy = Connection::open(folder.path().join("copy.db")).expect("a database");
    let format = copy.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0));
    assert_eq!(format.expect("a format"), 3);
}

#[test]
fn a_backup_has_the_mode_and_the_owner_of_the_database() {
    let folder = with_database();
    let source = folder.path().join(SOURCE);
    fs::set_permissions(&source, Permissions::from_mode(0o640)).expect("it is ours");
    // Only root can change the owner of a file.
    let _ = chown(&source, Some(12_345), Some(23_456));
    run(folder.path(), &[], &["backup", "copy.db"]).exits(0);
    let access = |path: &Path| {
        let file = path.metadata().expect("a file");
        (file.mode() & 0o777, file.uid(), file.gid())
    };
    assert_eq!(access(&folder.path().join("copy.db")), access(&source));
}

#[test]
fn a_backup_gets_its_name_after_its_content_is_on_disk_and_before_its_folder_is() {
    let (folder, aside) = (with_database(), TempDir::new().expect("a folder"));
    let calls = aside.path().join("calls");
    let trace = ["-e", "trace=fsync,fdatasync,rename,renameat2,fcntl"];
    traced(folder.path(), &calls, &trace).exits(0);
    let calls = fs::read_to_string(calls).expect("a file");
    let lines: Vec<&str> = calls.lines().collect();
    // SQLite must take no locks of the copy: on NFS they would conflict with the lock that this program has.
    let locks = |call: &&&str| call.contains("F_SETLK") && call.contains("copy.db");
    assert_eq!(lines.iter().find(locks), None);
    let place =
        |what: &dyn Fn(&str) -> bool| lines.iter().rposition(|call| what(call)).expect(&calls);
    let is_copy = |call: &str| call.contains("copy.db.new-") && !call.contains("-journal");
    let content = place(&|call| call.contains("sync(") && is_copy(call));
    let name = place(&|call| call.contains("rename") && call.contains("copy.db.new-"));
    let place_of_folder = folder.path().display().to_string();
    // A call that another thread interrupts in the trace is not closed on its line.
    let end = format!("<{place_of_folder}>");
    let folder = place(&|call| call.contains("sync(") && call.contains(&end));
    assert!(content < name && name < folder, "{calls}");
}

#[test]
fn a_full_disk_and_a_failed_sync_leave_neither_a_backup_nor_a_part_of_one() {
    let aside = TempDir::new().expect("a folder");
    for (inject, part) in [
        ("inject=pwrite64:error=ENOSPC", "disk is full"),
        // SQLite syncs its journal, the folder, the journal again and the copy; then come the syncs of the content and the folder.
        ("inject=fsync,fdatasync:error=EIO:when=1", "I/O error"),
        ("inject=fsync,fdatasync:error=EIO:when=4", "I/O error"),
        (
            "inject=fsync,fdatasync:error=EIO:when=5",
            "Input/output error",
        ),
        (
            "inject=fsync,fdatasync:error=EIO:when=7",
            "Input/output error",
        ),
        ("inject=renameat2:error=EIO", "Input/output error"),
    ] {
        let folder = with_database();
        let before = names(folder.path());
        let calls = aside.path().join("calls");
        let output = traced(folder.path(), &calls, &["-e", inject]);
        let line = output.fails_with(1);
        assert!(
            line.contains("copy.db") && line.contains(part),
            "{inject}: {line}"
        );
        assert_eq!(names(folder.path()), before, "{inject}");
    }
}

#[test]
fn a_file_that_was_replaced_before_a_sync_failed_is_reported_as_replaced() {
    let folder = with_database();
    let path = folder.path().to_str().expect("text");
    let inject = "inject=fsync:error=EIO";
    let strace = ["-f", "-o", "/dev/null", "-P", path, "-e", inject, PROGRAM];
    for command in [
        "backup copy.db --force",
        "pets export copy.db --format csv --force",
    ] {
        fs::write(folder.path().join("copy.db"), "old").expect("a file");
        let command: Vec<&str> = command.split(' ').collect();
        let output = harness::run("strace", folder.path(), &[&strace, &command[..]].concat());
        let line = output.fails_with(1);
        let wanted = "animal-store: copy.db was written, but its folder could not be synced, so a power failure may undo that: ";
        assert!(line.starts_with(wanted), "{line}");
        assert_ne!(
            fs::read(folder.path().join("copy.db")).expect("a file"),
            b"old"
        );
    }
}

#[test]
fn a_sync_that_fails_while_the_copy_is_written_leaves_nothing_although_later_ones_succeed() {
    let (folder, aside) = (
        with_large_database(20_000),
        TempDir::new().expect("a folder"),
    );
    let before = names(folder.path());
    let inject = ["-e", "inject=fdatasync:error=EIO:when=6"];
    let output = traced(folder.path(), &aside.path().join("calls"), &inject);
    let line = output.fails_with(1);
    assert!(line.contains("Input/output error"), "{line}");
    assert_eq!(names(folder.path()), before);
}

#[test]
fn a_disk_that_is_full_from_any_write_on_leaves_nothing() {
    let folder = with_database();
    let before = names(folder.path());
    let full = disk_full_from_each(folder.path(), &["backup", "copy.db"], |folder, when| {
        let mut left = names(folder);
        left.retain(|name| name != "copy.db");
        assert_eq!(left, before, "{when}");
    });
    assert!(full.contains("pwrite64"));
}

/// A database that is too large to be checked whole whenever it is opened, with this many animals.
fn with_large_database(animals: u32) -> TempDir {
    let folder = with_database();
    fill(folder.path(), animals);
    folder
}

/// Adds this many animals with long names.
pub(crate) fn fill(folder: &Path, animals: u32) {
    let source = Connection::open(folder.join(SOURCE)).expect("a database");
    source
        .execute_batch(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {animals})
             INSERT INTO pets (name, category_id, status)
             SELECT printf('%.*c', 250, 'x'), i, 'available' FROM n"
        ))
        .expect("animals");
}

/// The same, but they stay in the write-ahead log until the connection that it returns is closed: it has an older snapshot.
pub(crate) fn fill_log(folder: &Path, animals: u32) -> Connection {
    let reader = Connection::open(folder.join(SOURCE)).expect("a database");
    let snapshot = reader.execute_batch("BEGIN; SELECT * FROM pets");
    snapshot.expect("a snapshot");
    fill(folder, animals);
    reader
}

#[test]
fn the_99th_percentile_of_creations_during_a_backup_at_most_triples() {
    let folder = folder();
    let key = large_key(folder.path());
    fill(folder.path(), 150_000);
    let server = Process::serve(PROGRAM, folder.path(), &["--log-level", "warn"]);
    let client = server.client(Some(&key));
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    // In turns, so that both have the same share of what else this machine does.
    for round in 0..4 {
        alone.extend(creations(&client, || {
            std::thread::sleep(Duration::from_millis(1_500));
        }));
        let name = format!("copy-{round}.db");
        beside.extend(creations(&client, || {
            run(folder.path(), &[], &["backup", &name]).exits(0);
        }));
    }
    alone.sort();
    beside.sort();
    let (alone, beside) = (figures(&alone), figures(&beside));
    println!("median, p99 and maximum: alone {alone:?}, beside a backup {beside:?}");
    assert!(beside[1] <= 3 * alone[1], "{alone:?}, {beside:?}");
}

#[test]
fn a_copy_that_is_damaged_does_not_become_a_backup() {
    let folder = with_large_database(80_000);
    // A row that its table does not allow, made while the table did.
    let allowed = "category_id INTEGER";
    let required = "category_id INTEGER NOT NULL";
    for (from, to, change) in [
        (required, allowed, ""),
        (
            allowed,
            required,
            "UPDATE pets SET category_id = NULL WHERE id = 40000;",
        ),
    ] {
        let source = Connection::open(folder.path().join(SOURCE)).expect("a database");
        let redefine = format!(
            "{change} PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, '{from}', '{to}') WHERE name = 'pets'"
        );
        source.execute_batch(&redefine).expect("another definition");
    }
    let before = names(folder.path());
    let line = run(folder.path(), &[], &["backup", "copy.db"]).fails_with(1);
    assert!(
        line.contains("the copy is damaged (NULL value in pets.category_id)"),
        "{line}"
    );
    assert_eq!(names(folder.path()), before);
}

#[test]
fn an_interrupted_backup_leaves_nothing() {
    let folder = with_large_database(400_000);
    let before = names(folder.path());
    let mut backup = harness::command(PROGRAM)
        .args(["backup", "copy.db"])
        .current_dir(folder.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    harness::eventually(Duration::from_secs(10), "it has begun", || {
        names(folder.path()).len() > before.len()
    });
    let id = backup.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &id])
        .status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(backup.wait().expect("an end").code(), Some(1));
    let mut line = String::new();
    let mut errors = backup.stderr.take().expect("a pipe");
    std::io::Read::read_to_string(&mut errors, &mut line).expect("text");
    assert_eq!(
        line,
        "animal-store: stopped by SIGINT: no backup was made\n"
    );
    assert_eq!(names(folder.path()), before);
}

#[test]
fn without_a_database_there_is_nothing_to_back_up_and_postgresql_has_its_own_tool() {
    let folder = folder();
    let line = run(folder.path(), &[], &["backup", "copy.db"]).fails_with(1);
    assert!(
        line.contains("cannot open animal-store.db: there is no database"),
        "{line}"
    );
    let database = ["--database", "postgres://me:secret@db.example/animals"];
    let line = run(
        folder.path(),
        &[],
        &[&["backup", "copy.db"], &database[..]].concat(),
    );
    assert_eq!(
        line.fails_with(2),
        "animal-store: backup is for the embedded database: back up postgres://db.example:5432/animals with pg_dump --format=custom --file=FILE"
    );
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_database_is_filled_backed_up_and_restored_whatever_its_folder_is_called() {
    let outside = folder();
    // The last byte is not UTF-8.
    let folder = outside.path().join(OsStr::from_bytes(b"50%25? #1 \xe4"));
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("a.ndjson"), r#"{"name":"Rex","categoryId":1}"#).expect("a file");
    run(&folder, &[], &["pets", "import", "a.ndjson"]).exits(0);
    run(&folder, &[], &["backup", "copy.db"]).exits(0);
    run(&folder, &[], &["restore", "copy.db", "--yes"]).exits(0);
    assert_eq!(animals(&folder.join(SOURCE)), [1]);
}
