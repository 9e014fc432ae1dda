//! `serve --backup-folder`: backups that a server makes by itself.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use animal_store::clock::Timestamp;
use animal_store::config::Backups;
use animal_store::store::Database;
use harness::{App, Process, START, eventually};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::metrics::{value, value_at};
use crate::{PROGRAM, folder, large_key, logged};

pub(crate) const LAST: &str = "animal_store_backup_last_success_timestamp_seconds";

/// How long a backup of a small database, or two of them, may take.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A folder with a database, and another one for backups in it.
pub(crate) fn with_folders() -> (TempDir, String) {
    let folder = folder();
    let key = large_key(folder.path());
    fs::create_dir(folder.path().join("backups")).expect("a folder");
    (folder, key)
}

/// Starts a server that makes backups at this interval.
pub(crate) fn serve(folder: &TempDir, every: &str, keep: &str) -> Process {
    let args = ["--backup-folder", "backups", "--backup-every", every];
    let keep = ["--backup-keep", keep, "--log-level", "warn"];
    Process::serve(PROGRAM, folder.path(), &[&args[..], &keep].concat())
}

/// The names of the backups, and of what looks like one.
pub(crate) fn backups(folder: &TempDir) -> Vec<String> {
    let mut names = databases(folder);
    names.retain(|name| !name.contains(".new-"));
    names
}

/// The same with those that are not complete.
pub(crate) fn databases(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path().join("backups")).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("a name"))).collect();
    names.retain(|name| name.contains(".db"));
    names.sort();
    names
}

pub(crate) fn path(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join("backups").join(name)
}

pub(crate) fn animals(path: &Path) -> i64 {
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

/// Starts a server with a clock of its own that makes a backup each second of that clock.
fn app_with_backups(folder: &TempDir) -> App {
    let (app, ..) = App::start_with(|config| {
        let Database::Sqlite(source) = config.database.clone() else {
            panic!("{}", config.database)
        };
        config.backups = Some(Backups {
            source,
            folder: folder.path().join("backups"),
            every: Duration::from_secs(1),
            keep: 9,
        });
        fs::create_dir(folder.path().join("backups")).expect("a folder");
    });
    app
}

/// The metric of the last backup made at this time.
fn seconds(time: Timestamp) -> f64 {
    (time.as_millis() as f64 / 1e3).floor()
}

#[test]
fn a_clock_that_was_behind_at_a_start_and_is_corrected_makes_no_backup_before_it_is_due() {
    let folder = folder();
    let mut app = app_with_backups(&folder);
    let last = |app: &App| value_at(app.admin_address(), LAST);
    eventually(SOON, "a backup", || last(&app) == seconds(START));
    app.stop();
    let behind = Timestamp::from_secs(946_684_800);
    app.clock.set(behind);
    app.restart();
    eventually(SOON, "another", || last(&app) == seconds(behind));
    app.clock.set(START.plus(Duration::from_millis(500)));
    eventually(SOON, "the first", || last(&app) == seconds(START));
    assert_eq!(backups(&folder).len(), 2);
}

#[test]
fn a_clock_that_is_set_back_leaves_no_backup_from_the_future_in_the_metrics() {
    let folder = folder();
    let app = app_with_backups(&folder);
    let last = || value_at(app.admin_address(), LAST);
    eventually(SOON, "a backup", || last() == seconds(START));
    // No other one can be made, and the alert must fire.
    fs::rename(folder.path().join("backups"), folder.path().join("gone")).expect("a folder");
    app.clock.set(START.minus(Duration::from_secs(600)));
    eventually(SOON, "there is none", || last() == 0.0);
}
