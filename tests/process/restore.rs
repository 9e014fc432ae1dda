//! `animal-store restore`: what it replaces, keeps and prints.

mod crash;
mod rejection;
mod signal;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use harness::{Output, Process};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::calls::names;
use crate::{PROGRAM, folder, large_key, run};

const SOURCE: &str = "animal-store.db";

/// The beginning of the name of a database that was replaced.
const KEPT: &str = "animal-store.db.before-restore-";

/// Animals in the backup, and in the database.
const IN_BACKUP: i64 = 3;
const IN_DATABASE: i64 = 5;

/// A folder with a backup `monday.db` of three animals, and a database that has two more in its write-ahead log, as after a crash.
fn with_backup() -> (TempDir, String) {
    let folder = folder();
    let key = large_key(folder.path());
    add(folder.path(), &key, IN_BACKUP);
    run(folder.path(), &[], &["backup", "monday.db"]).exits(0);
    add(folder.path(), &key, IN_DATABASE - IN_BACKUP);
    assert!(folder.path().join("animal-store.db-wal").exists());
    (folder, key)
}

/// Adds animals with a server that is killed.
fn add(folder: &Path, key: &str, count: i64) {
    let mut server = Process::serve(PROGRAM, folder, &["--no-first-key"]);
    let client = server.client(Some(key));
    for _ in 0..count {
        let made = client.create(&json!({"name": "Rex", "categoryId": 1}));
        assert_eq!(made.status, 201, "{made}");
    }
    server.kill();
}

/// The number of animals in a file, without a log next to it.
fn animals(path: &Path) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let url = format!("file:{}?immutable=1", path.display());
    let connection = Connection::open_with_flags(url, flags).expect("a database");
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", (), |row| row.get(0))
        .expect("a database");
    assert_eq!(verdict, "ok", "{}", path.display());
    let count = connection.query_row("SELECT count(*) FROM pets", (), |row| row.get(0));
    count.expect("a table")
}

/// The names under which databases are kept.
fn kept(folder: &Path) -> Vec<PathBuf> {
    let mut names = names(folder);
    let is_other = |name: &str| {
        ["-wal", "-shm", "-journal"]
            .iter()
            .any(|end| name.ends_with(end))
    };
    names.retain(|name| name.starts_with(KEPT) && !is_other(name));
    names.iter().map(|name| folder.join(name)).collect()
}

fn restore(folder: &Path) -> Output {
    run(folder, &[], &["restore", "monday.db", "--yes"])
}

/// The number of animals that SQLite finds, with the log.
fn animals_served(folder: &Path) -> i64 {
    let connection = Connection::open(folder.join(SOURCE)).expect("a database");
    let count = connection.query_row("SELECT count(*) FROM pets", (), |row| row.get(0));
    count.expect("a table")
}

#[test]
fn a_restore_reports_what_it_did_and_keeps_mode_and_owner() {
    let (folder, key) = with_backup();
    for args in [
        &["keys", "create", "--name", "later", "--plan", "free"][..],
        &["keys", "revoke", "1"],
    ] {
        run(folder.path(), &[], args).exits(0);
    }
    let source = folder.path().join(SOURCE);
    fs::set_permissions(&source, Permissions::from_mode(0o640)).expect("it is ours");
    // Only root can change the owner of a file.
    let _ = chown(&source, Some(12_345), Some(23_456));
    let access = |path: &Path| {
        let file = path.metadata().expect("a file");
        (file.mode() & 0o777, file.uid(), file.gid())
    };
    let before = access(&source);
    let json = ["restore", "monday.db", "--yes", "--json"];
    let output = run(folder.path(), &[], &json).exits(0);
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let kept = report["kept"].as_str().expect("a name").to_owned();
    assert!(kept.starts_with(KEPT), "{kept}");
    assert_eq!(report["revokedSince"], json!([{"id": 1, "name": "test"}]));
    assert_eq!(report["rotatedSince"], json!([]));
    assert_eq!(
        (&report["database"], &report["file"]),
        (&json!(SOURCE), &json!("monday.db"))
    );
    assert_eq!(access(&source), before);
    assert_eq!(animals(&folder.path().join(&kept)), IN_DATABASE);
    let left = names(folder.path());
    assert_eq!(left, [SOURCE, &kept, "monday.db"]);

    // The key that was revoked works again, and the kept database can be restored like a backup.
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let client = server.client(Some(&key));
    assert_eq!(
        client.get("/v1/pets").json().as_array().map(Vec::len),
        Some(3)
    );
    drop(server);
    let output = run(folder.path(), &[], &["restore", &kept, "--yes"]).exits(0);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(
        lines[0].starts_with(&format!("restored {SOURCE} from {kept}: "))
            && lines[0].contains(" bytes, format "),
        "{output:?}"
    );
    assert!(lines[1].starts_with(&format!("the previous database is kept as {KEPT}")));
    assert_eq!(lines.len(), 2, "{output:?}");
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    server
        .client(Some(&key))
        .get("/v1/pets")
        .is_error(401, "invalid_api_key");
    drop(server);
    let output = run(folder.path(), &[], &["restore", "monday.db", "--yes"]).exits(0);
    let last = output.stdout.lines().last().expect("a line");
    assert_eq!(
        last,
        "the restore makes keys that were revoked since the backup valid again: 1 (test)"
    );
}

#[test]
fn a_key_that_has_the_id_of_a_lost_one_is_listed_neither_as_rotated_nor_as_revoked() {
    let (folder, _) = with_backup();
    run(folder.path(), &[], &["restore", "monday.db", "--yes"]).exits(0);
    // As after a restore of a backup that did not have this key: its ID was issued again.
    for change in ["hash = randomblob(32)", "revoked_at = created_at + 1"] {
        let update = format!("UPDATE api_keys SET created_at = created_at + 1, {change}");
        let database = rusqlite::Connection::open(folder.path().join("animal-store.db"));
        let updated = database.expect("a database").execute(&update, ());
        updated.expect("a change");
        let json = ["restore", "monday.db", "--yes", "--json"];
        let output = run(folder.path(), &[], &json).exits(0);
        let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
        let listed = (&report["rotatedSince"], &report["revokedSince"]);
        assert_eq!(listed, (&json!([]), &json!([])), "{change}");
    }
}

#[test]
fn keys_that_were_rotated_since_the_backup_are_listed_and_have_their_former_secrets() {
    let (folder, key) = with_backup();
    let rotate = || {
        run(
            folder.path(),
            &[],
            &["keys", "rotate", "1", "--grace", "0s"],
        )
        .exits(0)
    };
    rotate();
    let json = ["restore", "monday.db", "--yes", "--json"];
    let output = run(folder.path(), &[], &json).exits(0);
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(report["rotatedSince"], json!([{"id": 1, "name": "test"}]));
    assert_eq!(report["revokedSince"], json!([]));
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    assert_eq!(server.client(Some(&key)).get("/v1/pets").status, 200);
    drop(server);
    rotate();
    let command = format!("exec {PROGRAM} restore monday.db");
    let (_, shown) = harness::on_terminal(folder.path(), &command, &[], "n\n");
    let question = "; the restore gives keys that were rotated since the backup their former secrets again: 1 (test). Continue?";
    assert!(shown.contains(question), "{shown}");
    let output = restore(folder.path()).exits(0);
    assert_eq!(
        output.stdout.lines().last(),
        Some(
            "the restore gives keys that were rotated since the backup their former secrets again: 1 (test)"
        )
    );
}

#[test]
fn a_restore_does_not_wait_for_a_server_and_asks_for_confirmation() {
    let (folder, _) = with_backup();
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let line = restore(folder.path()).fails_with(1);
    let in_use = format!("animal-store.db is in use by process {}", server.id());
    assert!(line.contains(&in_use), "{line}");
    drop(server);
    let before = names(folder.path());
    let line = run(folder.path(), &[], &["restore", "monday.db"]).fails_with(2);
    assert_eq!(
        line,
        "animal-store: animal-store.db would be replaced with monday.db: use --yes to confirm"
    );
    assert_eq!(names(folder.path()), before);
    let command = format!("exec {PROGRAM} restore monday.db");
    let (code, shown) = harness::on_terminal(folder.path(), &command, &[], "n\n");
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("animal-store.db will be replaced with monday.db. Continue? [y/N]")
            && shown.contains("nothing was changed"),
        "{shown}"
    );
    assert_eq!(animals_served(folder.path()), IN_DATABASE);
    // Ctrl-C while it asks.
    let interrupted = format!("(sleep 3; kill -INT $$) & {command}");
    let before = names(folder.path());
    let (code, shown) = harness::on_terminal(folder.path(), &interrupted, &[], "");
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("Continue? [y/N]")
            && shown.contains("stopped by SIGINT: nothing was restored"),
        "{shown}"
    );
    assert_eq!(names(folder.path()), before);
    let (code, shown) = harness::on_terminal(folder.path(), &command, &[], "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(animals_served(folder.path()), IN_BACKUP);
}

#[test]
fn a_database_that_another_process_has_open_is_not_replaced_under_it() {
    let (folder, _) = with_backup();
    let other = Connection::open(folder.path().join(SOURCE)).expect("a database");
    other
        .execute_batch("BEGIN; SELECT * FROM pets")
        .expect("a read");
    let line = restore(folder.path()).fails_with(1);
    assert!(
        line.contains("cannot restore animal-store.db: another process has it open: stop it first (`fuser animal-store.db` shows it)"),
        "{line}"
    );
    other.execute_batch("COMMIT").expect("an end");
    // One that lets nobody read is noticed earlier.
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        .expect("a lock");
    let line = restore(folder.path()).fails_with(1);
    assert!(
        line.contains("cannot open animal-store.db: another process has locked it: stop it first"),
        "{line}"
    );
    other.execute_batch("COMMIT").expect("an end");
    drop(other);
    assert_eq!(animals_served(folder.path()), IN_DATABASE);
    restore(folder.path()).exits(0);
    assert_eq!(animals_served(folder.path()), IN_BACKUP);
}

#[test]
fn a_backup_is_restored_from_another_disk_through_links_and_where_there_is_no_database() {
    let (folder, _) = with_backup();
    let disk = tempfile::tempdir_in("/dev/shm").expect("another file system");
    let far = disk.path().join("far.db");
    fs::copy(folder.path().join("monday.db"), &far).expect("a copy");
    symlink(&far, folder.path().join("latest.db")).expect("a link");
    // The database is a symbolic link, too.
    fs::create_dir(folder.path().join("data")).expect("a folder");
    for end in ["", "-wal"] {
        let from = folder.path().join(format!("{SOURCE}{end}"));
        fs::rename(from, folder.path().join(format!("data/real.db{end}"))).expect("a file");
    }
    symlink("data/real.db", folder.path().join(SOURCE)).expect("a link");
    run(folder.path(), &[], &["restore", "latest.db", "--yes"]).exits(0);
    assert!(folder.path().join(SOURCE).is_symlink());
    assert_eq!(animals_served(folder.path()), IN_BACKUP);
    let data = names(&folder.path().join("data"));
    assert!(
        data.len() == 2 && data[1].starts_with("real.db.before-restore-"),
        "{data:?}"
    );
    assert_eq!(
        animals(&folder.path().join("data").join(&data[1])),
        IN_DATABASE
    );

    // As in "$FOLDER/far.db" if FOLDER is "/".
    let two_slashes = format!("/{}", far.display());
    let new = [
        "restore",
        &two_slashes,
        "--yes",
        "--database",
        "sqlite:new.db",
        "--json",
    ];
    let report: Value =
        serde_json::from_str(&run(folder.path(), &[], &new).exits(0).stdout).expect("JSON");
    assert_eq!(report["kept"], Value::Null);
    assert_eq!(animals(&folder.path().join("new.db")), IN_BACKUP);
}

#[test]
fn an_earlier_format_is_restored_and_migrated_by_the_next_start() {
    let (folder, _) = with_backup();
    let backup = Connection::open(folder.path().join("monday.db")).expect("a database");
    backup
        .execute_batch("DROP TABLE deployment; PRAGMA user_version = 3")
        .expect("an earlier format");
    drop(backup);
    let output = restore(folder.path()).exits(0);
    assert!(output.stdout.contains("format 3"), "{output:?}");
    let migrated = run(folder.path(), &[], &["migrate"]).exits(0);
    let line = "migrated animal-store.db from format 3 to ";
    assert!(migrated.stdout.starts_with(line), "{migrated:?}");
    assert_eq!(animals_served(folder.path()), IN_BACKUP);
}

#[test]
fn where_there_is_no_database_the_restored_one_is_like_a_new_one_and_replaces_nothing() {
    let (folder, _) = with_backup();
    let backup = folder.path().join("monday.db");
    fs::set_permissions(&backup, Permissions::from_mode(0o644)).expect("it is ours");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    // Only root can change the owner of a file.
    let _ = chown(&data, Some(12_345), Some(23_456));
    let owner = data.metadata().expect("a folder");
    let args = ["restore", "monday.db", "--database", "sqlite:data/new.db"];
    assert_eq!(
        run(folder.path(), &[], &args).fails_with(2),
        "animal-store: data/new.db would be created from monday.db: use --yes to confirm"
    );
    let command = format!("exec {PROGRAM} {}", args.join(" "));
    let (code, shown) = harness::on_terminal(folder.path(), &command, &[], "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("data/new.db will be created from monday.db. Continue? [y/N]"),
        "{shown}"
    );
    let new = data.join("new.db").metadata().expect("a file");
    assert_eq!(
        (new.mode() & 0o777, new.uid(), new.gid()),
        (0o600, owner.uid(), owner.gid())
    );
}

#[test]
fn the_log_of_a_missing_database_is_kept_and_named() {
    for args in [&[][..], &["--json"]] {
        let (folder, _) = with_backup();
        let log = fs::read(folder.path().join("animal-store.db-wal")).expect("a log");
        fs::remove_file(folder.path().join(SOURCE)).expect("a file");
        let args = [&["restore", "monday.db", "--yes"], args].concat();
        let output = run(folder.path(), &[], &args).exits(0);
        let kept = match serde_json::from_str::<Value>(&output.stdout) {
            Ok(report) => report["kept"].as_str().expect("a name").to_owned(),
            Err(_) => {
                let line = output.stdout.lines().nth(1).expect("a line");
                let name = line.strip_prefix(
                    "the log or journal that was left without a database is kept as ",
                );
                name.expect(line).to_owned()
            }
        };
        assert_eq!(fs::read(folder.path().join(kept)).expect("a file"), log);
        assert_eq!(animals_served(folder.path()), IN_BACKUP);
    }
}
