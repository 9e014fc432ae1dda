//! `serve --backup-folder`: backups that a server makes by itself.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use animal_store::config::Backups;
use animal_store::store::Database;
use harness::{App, Process, START, eventually};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::calls::names;
use crate::metrics::{value, value_at};
use crate::permission::{allow, run as run_unprivileged};
use crate::{FREE_PORTS, PROGRAM, folder, large_key, logged, run};

const LAST: &str = "animal_store_backup_last_success_timestamp_seconds";

/// How long a backup of a small database, or two of them, may take.
const SOON: Duration = Duration::from_secs(20);

/// A folder with a database, and another one for backups in it.
fn with_folders() -> (TempDir, String) {
    let folder = folder();
    let key = large_key(folder.path());
    fs::create_dir(folder.path().join("backups")).expect("a folder");
    (folder, key)
}

/// Starts a server that makes backups at this interval.
fn serve(folder: &TempDir, every: &str, keep: &str) -> Process {
    let args = ["--backup-folder", "backups", "--backup-every", every];
    let keep = ["--backup-keep", keep, "--log-level", "warn"];
    Process::serve(PROGRAM, folder.path(), &[&args[..], &keep].concat())
}

/// The names of the backups, and of what looks like one.
fn backups(folder: &TempDir) -> Vec<String> {
    let mut names = databases(folder);
    names.retain(|name| !name.contains(".new-"));
    names
}

/// The same with those that are not complete.
fn databases(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path().join("backups")).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("a name"))).collect();
    names.retain(|name| name.contains(".db"));
    names.sort();
    names
}

fn path(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join("backups").join(name)
}

fn animals(path: &Path) -> i64 {
    let connection = Connection::open(path).expect("a database");
    let count = connection.query_row("SELECT count(*) FROM pets", (), |row| row.get(0));
    count.expect("a table")
}

#[test]
fn a_server_makes_backups_at_its_interval_and_keeps_the_latest_ones() {
    let (folder, key) = with_folders();
    // It looks like a backup, and the server did not make it.
    let (foreign, copied) = ("animal-store-2020-01-01T00-00-00Z.db", "mine.db");
    fs::write(path(&folder, foreign), "precious").expect("a file");
    let server = serve(&folder, "1s", "2");
    let client = server.client(Some(&key));
    let made = client.create(&json!({"name": "Rex", "categoryId": 1}));
    assert_eq!(made.status, 201);
    eventually(SOON, "two backups", || backups(&folder).len() == 3);
    let first = backups(&folder)[1].clone();
    // One that the operator has changed is the operator's.
    let second = backups(&folder)[2].clone();
    fs::copy(path(&folder, &second), path(&folder, copied)).expect("a copy");
    fs::write(path(&folder, &second), "changed").expect("a file");
    let later = || -> Vec<String> {
        let mut names = backups(&folder);
        names.retain(|name| *name > second && name != copied);
        names
    };
    eventually(SOON, "a third one", || !later().is_empty());
    let third = later()[0].clone();
    eventually(SOON, "the third one is deleted", || {
        !later().contains(&third)
    });
    assert!(!backups(&folder).contains(&first));
    let names = backups(&folder);
    assert_eq!(names[0], foreign);
    assert!(names.contains(&second), "{names:?}");
    // Backups in the process of the server have not dropped its locks on the database.
    let database = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    let alone = database.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    assert!(alone.is_err(), "the server has lost its locks");
    drop(database);
    drop(server);
    assert_eq!(
        fs::read(path(&folder, foreign)).expect("a file"),
        b"precious"
    );
    assert_eq!(
        fs::read(path(&folder, &second)).expect("a file"),
        b"changed"
    );
    assert_eq!(animals(&path(&folder, copied)), 1);
    let names = backups(&folder);
    let last = names.iter().rfind(|name| *name != copied);
    assert_eq!(animals(&path(&folder, last.expect("a backup"))), 1);
}

#[test]
fn a_backup_is_an_event_of_the_dashboard_at_every_level_and_a_line_of_the_log_at_info() {
    let (folder, _) = with_folders();
    let server = serve(&folder, "1h", "2");
    eventually(SOON, "a backup", || value(&server, LAST) > 0.0);
    let mut live = TcpStream::connect(server.admin).expect("a connection");
    live.write_all(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("a request");
    let mut seen = Vec::new();
    eventually(SOON, "an event", || {
        let mut bytes = [0; 4096];
        let length = live.read(&mut bytes).expect("a stream");
        seen.extend_from_slice(&bytes[..length]);
        let text = String::from_utf8_lossy(&seen);
        text.contains(r#""message":"backup made""#) && text.contains(r#""fields":"folder=backups""#)
    });
    assert_eq!(server.log(), "");
    drop(server);

    let words = ["--backup-folder", "backups", "--backup-every", "1s"];
    let server = Process::serve(PROGRAM, folder.path(), &words);
    logged(&server, &["INFO", "backup made", "folder=backups"]);
}

#[test]
fn a_server_that_is_restarted_makes_no_more_backups_than_one_that_is_not() {
    let (folder, _) = with_folders();
    let mut times = Vec::new();
    for _ in 0..3 {
        let server = serve(&folder, "1h", "24");
        eventually(SOON, "a backup", || value(&server, LAST) > 0.0);
        let interval = value(&server, "animal_store_backup_interval_seconds");
        assert_eq!(interval, 3_600.0);
        times.push(value(&server, LAST));
    }
    assert_eq!(backups(&folder).len(), 1);
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
    let time = format!("{}", times[0]);
    let shown = harness::run(
        "date",
        folder.path(),
        &["-u", "-d", &format!("@{time}"), "+%FT%H-%M-%SZ"],
    );
    let name = format!("animal-store-{}.db", shown.exits(0).stdout.trim());
    assert_eq!(backups(&folder), [name]);
}

/// Gives the only backup another time, as if it had been made with a clock that was wrong.
fn rename_backup(folder: &TempDir, to: &str) {
    let from = backups(folder).pop().expect("a backup");
    fs::rename(path(folder, &from), path(folder, to)).expect("a file");
    let list = path(folder, "animal-store-backups.list");
    let text = fs::read_to_string(&list).expect("a list");
    fs::write(list, text.replace(&from, to)).expect("a list");
}

#[test]
fn a_backup_from_the_future_counts_as_none_and_is_the_first_to_be_deleted() {
    let (folder, _) = with_folders();
    drop({
        let server = serve(&folder, "1h", "2");
        eventually(SOON, "a backup", || value(&server, LAST) > 0.0);
        server
    });
    let future = "animal-store-2099-01-01T00-00-00Z.db";
    rename_backup(&folder, future);
    // The second start finds the one that the first has made.
    for _ in 0..2 {
        let server = serve(&folder, "1h", "2");
        eventually(SOON, "a backup", || value(&server, LAST) > 0.0);
        assert!(value(&server, LAST) < 4e9);
        assert_eq!(backups(&folder).len(), 2);
    }
    let recent = backups(&folder)[0].clone();
    let _server = serve(&folder, "1s", "2");
    eventually(SOON, "it is deleted", || {
        !backups(&folder).contains(&future.to_owned())
    });
    assert!(backups(&folder).contains(&recent), "{:?}", backups(&folder));
}

#[test]
fn a_clock_that_is_set_back_leaves_no_backup_from_the_future_in_the_metrics() {
    let folder = folder();
    let (app, ..) = App::start_with(|config| {
        let Database::Sqlite(source) = config.database.clone() else {
            panic!("{}", config.database)
        };
        config.backups = Some(Backups {
            source,
            folder: folder.path().join("backups"),
            every: Duration::from_secs(1),
            keep: 2,
        });
        fs::create_dir(folder.path().join("backups")).expect("a folder");
    });
    let last = || value_at(app.admin_address(), LAST);
    let start = START.as_millis() as f64 / 1e3;
    eventually(SOON, "a backup", || last() == start.floor());
    // No other one can be made, and the alert must fire.
    fs::rename(folder.path().join("backups"), folder.path().join("gone")).expect("a folder");
    app.clock.set(START.minus(Duration::from_secs(600)));
    eventually(SOON, "there is none", || last() == 0.0);
}

#[test]
fn a_folder_that_cannot_be_used_fails_the_start() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "").expect("a file");
    for name in ["read", "closed"] {
        fs::create_dir(path(name)).expect("a folder");
    }
    allow(&path("read"), 0o555);
    allow(&path("closed"), 0o000);
    let before = names(folder.path());
    for (name, part) in [
        ("missing", "it does not exist: create it first"),
        ("file", "it is not a folder"),
        ("file/folder", "Not a directory"),
        ("read", "it is not writable: Permission denied"),
        ("closed/folder", "Permission denied"),
    ] {
        let args = ["serve", "--backup-folder", name];
        let line =
            run_unprivileged(folder.path(), &[&args[..], &FREE_PORTS].concat()).fails_with(1);
        let start = format!("animal-store: --backup-folder {name}: ");
        assert!(line.starts_with(&start) && line.contains(part), "{line}");
    }
    let script = script_after("mount -t tmpfs -o ro none read", "read");
    let args = ["20", "unshare", "-rm", "sh", "-c", &script];
    let line = harness::run("timeout", folder.path(), &args).fails_with(1);
    assert_eq!(
        line,
        "animal-store: --backup-folder read: it is not writable: Read-only file system (os error 30)"
    );
    assert_eq!(names(folder.path()), before, "no database is created");
    allow(&path("closed"), 0o755);
}

#[test]
fn a_backup_that_fails_is_logged_once_and_counted_and_affects_nothing_else() {
    let (folder, key) = with_folders();
    let server = serve(&folder, "1s", "2");
    eventually(SOON, "a backup", || value(&server, LAST) > 0.0);
    let path_of = |name: &str| folder.path().join(name);
    fs::rename(path_of("backups"), path_of("gone")).expect("a folder");
    let client = server.client(Some(&key));
    let mut log = logged(&server, &["ERROR", "backups", "No such file"]);
    let last = value(&server, LAST);
    let failures = r#"animal_store_background_failures_total{task="backup"}"#;
    eventually(SOON, "three failures", || value(&server, failures) >= 3.0);
    let made = client.create(&json!({"name": "Rex", "categoryId": 1}));
    assert_eq!((made.status, client.get("/readyz").status), (201, 200));
    assert_eq!(value(&server, LAST), last);
    log.push_str(&server.log());
    assert_eq!(log.lines().count(), 1, "{log}");
    fs::rename(path_of("gone"), path_of("backups")).expect("a folder");
    eventually(SOON, "a backup", || value(&server, LAST) > last);
    drop(server);

    // The folder of another database is not touched.
    let (other, _) = with_folders();
    let list = "animal-store-backups.list";
    fs::copy(path(&folder, list), path(&other, list)).expect("a list");
    let server = serve(&other, "1s", "2");
    logged(
        &server,
        &["ERROR", "the folder has the backups of another database"],
    );
    assert_eq!(databases(&other), [""; 0]);
    // A list that is not valid.
    fs::write(path(&other, list), "something else").expect("a file");
    drop(server);
    let every_second = ["--backup-folder", "backups", "--backup-every", "1s"];
    let server = Process::serve(PROGRAM, other.path(), &every_second);
    logged(
        &server,
        &["ERROR", "not a list of backups: move it elsewhere"],
    );
    assert_eq!(backups(&other), [""; 0]);
    fs::remove_file(path(&other, list)).expect("removed");
    let log = logged(&server, &["INFO", "backup made"]);
    assert!(log.contains("the backup folder can be read again"), "{log}");
}

/// A shell script that becomes a server, with backups in this folder every second, after this command.
fn script_after(command: &str, backups: &str) -> String {
    let ports = FREE_PORTS.join(" ");
    let options = format!("--backup-folder {backups} --backup-every 1s --log-level warn");
    format!("{command} && exec {PROGRAM} serve {ports} {options}")
}

#[test]
fn a_full_backup_disk_is_a_failure_and_the_disk_of_the_database_is_not_filled() {
    let mount = |size| format!("mount -t tmpfs -o size={size} none backups");
    let move_to =
        |disk| format!("{disk} && cp animal-store.db* backups && cd backups && mkdir backups");
    // The database has 21 MB. The disk of 50 MB has room for a backup, but not for the reserved 64 MiB; that of 100 MB not for both.
    for (command, part) in [
        (mount("40k"), "disk is full"),
        (move_to(mount("50m")), "which a backup must not fill"),
        (move_to(mount("100m")), "which a backup must not fill"),
    ] {
        let (folder, key) = with_folders();
        let _reader = crate::backup::fill_log(folder.path(), 80_000);
        // On file systems that only it sees.
        let args = ["-rm", "sh", "-c", &script_after(&command, "backups")];
        let server = Process::start("unshare", folder.path(), &args, &[]);
        logged(&server, &["ERROR", "backup failed", part]);
        let client = server.client(Some(&key));
        let made = client.create(&json!({"name": "Rex", "categoryId": 1}));
        assert_eq!(made.status, 201, "{command}: {made}");
        // As the server sees it.
        let seen = format!("/proc/{}/cwd/backups", server.id());
        let files: Vec<_> = fs::read_dir(seen).expect("a folder").collect();
        assert!(files.is_empty(), "{command}: {files:?}");
    }
}

#[test]
fn what_a_killed_server_leaves_of_a_backup_is_removed_and_a_shutdown_leaves_nothing() {
    let (folder, _) = with_folders();
    crate::backup::fill(folder.path(), 400_000);
    let begun = || {
        databases(&folder)
            .iter()
            .any(|name| name.contains(".db.new-"))
    };
    let mut server = serve(&folder, "1h", "2");
    eventually(SOON, "a backup has begun", begun);
    server.kill();
    assert!(begun(), "it ended too soon");
    let left = databases(&folder);
    let mut server = serve(&folder, "1h", "2");
    eventually(SOON, "the leftover is gone, and another has begun", || {
        begun() && databases(&folder).iter().all(|name| !left.contains(name))
    });
    server.signal("TERM");
    assert_eq!(server.ends_within(Duration::from_secs(10)), Some(0));
    assert_eq!(databases(&folder), [""; 0]);
    let server = serve(&folder, "1h", "2");
    eventually(SOON, "a backup", || value(&server, LAST) > 0.0);
    let names = databases(&folder);
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(animals(&path(&folder, &names[0])), 400_000);
}

#[test]
fn a_backup_of_a_server_that_is_killed_when_it_is_complete_is_deleted_in_its_turn() {
    // It gets its name, or the list does.
    for call in ["renameat2", "rename"] {
        let (folder, _) = with_folders();
        let inject = format!("inject={call}:signal=SIGKILL:when=1");
        let strace = ["20", "strace", "-f", "-o", "/dev/null", "-e", &inject];
        let args = [PROGRAM, "serve", "--backup-folder", "backups"];
        let args = [&strace[..], &args, &FREE_PORTS].concat();
        let output = harness::run("timeout", folder.path(), &args);
        // strace and timeout end as it does.
        assert_eq!(output.code, None, "{call}: {output:?}");
        let first = backups(&folder);
        let server = serve(&folder, "1s", "1");
        eventually(SOON, "a backup", || value(&server, LAST) > 0.0);
        let second = value(&server, LAST);
        eventually(SOON, "another", || value(&server, LAST) > second);
        let both: Vec<String> = backups(&folder);
        assert!(
            both.iter().all(|name| !first.contains(name)),
            "{call}: {first:?} {both:?}"
        );
    }
}

#[test]
fn backups_of_postgresql_are_a_usage_error() {
    let folder = folder();
    let args = ["serve", "--backup-folder=.", "--database=postgres://a@b/c"];
    let line = run(folder.path(), &[], &args).fails_with(2);
    assert_eq!(
        line,
        "animal-store: --backup-folder is for the embedded database: back up PostgreSQL with its own tools, such as pg_dump"
    );
}
