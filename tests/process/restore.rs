//! `animal-store restore`: whatever happens, the old database or the backup is there, whole, and the other one is not lost.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::{Output, Process};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{PROGRAM, folder, large_key, run};

const SOURCE: &str = "animal-store.db";

/// What the name of a database that was replaced has after its name.
const KEPT: &str = "animal-store.db.before-restore-";

/// Animals in the backup, and in the database.
const BEFORE: i64 = 3;
const AFTER: i64 = 5;

/// System calls that change files. What one creates with openat is empty until the next of these.
const CHANGES: [&str; 13] = [
    "write",
    "pwrite64",
    "copy_file_range",
    "ftruncate",
    "unlink",
    "unlinkat",
    "rename",
    "renameat2",
    "linkat",
    "fsync",
    "fdatasync",
    "fchmod",
    "fchown",
];

/// A folder with a backup `monday.db` of three animals, and a database that has two more in its write-ahead log, as after a crash.
fn with_backup() -> (TempDir, String) {
    let folder = folder();
    let key = large_key(folder.path());
    add(folder.path(), &key, BEFORE);
    run(folder.path(), &[], &["backup", "monday.db"]).exits(0);
    add(folder.path(), &key, AFTER - BEFORE);
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

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("a name"))).collect();
    names.sort();
    names
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

/// Copies a folder, with the files in it.
fn copied(folder: &Path) -> TempDir {
    let copy = TempDir::new().expect("a folder");
    for name in names(folder) {
        fs::copy(folder.join(&name), copy.path().join(&name)).expect("a copy");
    }
    copy
}

/// Runs restores under strace, each in a copy of the folder, and kills each before another one of its calls that change a file:
/// strace counts each kind of call by itself. `look` looks at what is there then; the last one was not killed.
fn killed_everywhere(original: &Path, mut look: impl FnMut(&Path, &str)) -> BTreeSet<&'static str> {
    let mut killed = BTreeSet::new();
    for call in CHANGES {
        for number in 1.. {
            let folder = copied(original);
            let inject = format!("inject={call}:signal=SIGKILL:when={number}");
            let words = ["-f", "-o", "/dev/null", "-e", &inject];
            let command = [PROGRAM, "restore", "monday.db", "--yes"];
            let words = [&words[..], &command].concat();
            let output = harness::run("strace", folder.path(), &words);
            look(folder.path(), &format!("killed at {call} {number}"));
            if output.code == Some(0) {
                break;
            }
            killed.insert(call);
        }
    }
    killed
}

#[test]
fn a_restore_killed_at_any_call_that_changes_a_file_leaves_the_old_or_the_new_database_and_loses_no_commit()
 {
    let (original, _) = with_backup();
    let mut states = BTreeSet::new();
    let killed = killed_everywhere(original.path(), |folder, when| {
        // Everything that a server would do to open it.
        run(folder, &[], &["migrate"]).exits(0);
        let found = animals_served(folder);
        let counts: Vec<i64> = kept(folder).iter().map(|path| animals(path)).collect();
        assert!(
            (found == AFTER && counts.is_empty()) || (found == BEFORE && counts == [AFTER]),
            "{when}: {found} animals, kept {counts:?}, {:?}",
            names(folder)
        );
        states.insert(found);
        if found == AFTER {
            // What it left is no obstacle.
            restore(folder).exits(0);
            assert_eq!(animals_served(folder), BEFORE, "{when}");
        }
        let left = names(folder);
        assert!(
            left.iter().all(|name| !name.contains(".new-")),
            "{when}: {left:?}"
        );
    });
    assert_eq!(states.into_iter().collect::<Vec<_>>(), [BEFORE, AFTER]);
    for call in [
        "linkat",
        "rename",
        "unlink",
        "ftruncate",
        "pwrite64",
        "fsync",
    ] {
        assert!(killed.contains(call), "never killed at {call}: {killed:?}");
    }
}

/// The number of animals that SQLite finds, with the log.
fn animals_served(folder: &Path) -> i64 {
    let connection = Connection::open(folder.join(SOURCE)).expect("a database");
    let count = connection.query_row("SELECT count(*) FROM pets", (), |row| row.get(0));
    count.expect("a table")
}

#[test]
fn a_database_that_cannot_be_opened_is_kept_with_all_its_files_wherever_the_restore_is_killed() {
    let (original, _) = with_backup();
    let damaged = b"not a database any more, but perhaps somebody can make use of it".repeat(100);
    fs::write(original.path().join(SOURCE), &damaged).expect("a file");
    let log = fs::read(original.path().join("animal-store.db-wal")).expect("a log");
    assert!(!log.is_empty());
    let mut refused = BTreeSet::new();
    let killed = killed_everywhere(original.path(), |folder, when| {
        let opened = run(folder, &[], &["migrate"]);
        if opened.code != Some(0) {
            let line = opened.refuses(1);
            refused.insert(line.contains("run `animal-store restore FILE` again"));
            restore(folder).exits(0);
        }
        assert_eq!(animals_served(folder), BEFORE, "{when}");
        let kept = kept(folder);
        assert_eq!(kept.len(), 1, "{when}: {kept:?}");
        assert_eq!(fs::read(&kept[0]).expect("a file"), damaged, "{when}");
        let kept_log = PathBuf::from(format!("{}-wal", kept[0].display()));
        assert_eq!(fs::read(kept_log).expect("a log"), log, "{when}");
    });
    assert_eq!(
        refused.len(),
        2,
        "refused for what it was, and for the restore"
    );
    assert!(
        killed.contains("linkat") && killed.contains("rename"),
        "{killed:?}"
    );
}

#[test]
fn a_restore_says_what_it_did_and_keeps_mode_and_owner() {
    let (folder, key) = with_backup();
    for words in [
        &["keys", "create", "--name", "later", "--plan", "free"][..],
        &["keys", "revoke", "1"],
    ] {
        run(folder.path(), &[], words).exits(0);
    }
    let source = folder.path().join(SOURCE);
    fs::set_permissions(&source, Permissions::from_mode(0o640)).expect("it is ours");
    // Others than root cannot give a file away.
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
    assert_eq!(animals(&folder.path().join(&kept)), AFTER);
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
    assert!(lines[1].starts_with(&format!("the database before it is kept as {KEPT}")));
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
        "keys revoked since the backup are valid again: 1 (test)"
    );
}

#[test]
fn a_restore_waits_for_nobody_who_serves_and_asks_first() {
    let (folder, _) = with_backup();
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let line = restore(folder.path()).refuses(1);
    let in_use = format!("animal-store.db is in use by process {}", server.id());
    assert!(line.contains(&in_use), "{line}");
    drop(server);
    let before = names(folder.path());
    let line = run(folder.path(), &[], &["restore", "monday.db"]).refuses(2);
    assert_eq!(
        line,
        "animal-store: monday.db would replace animal-store.db: use --yes to confirm"
    );
    assert_eq!(names(folder.path()), before);
    let command = format!("exec {PROGRAM} restore monday.db");
    let (code, shown) = harness::on_terminal(folder.path(), &command, &[], "n\n");
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("monday.db replaces animal-store.db. Continue? [y/N]")
            && shown.contains("nothing was changed"),
        "{shown}"
    );
    assert_eq!(animals_served(folder.path()), AFTER);
    let (code, shown) = harness::on_terminal(folder.path(), &command, &[], "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(animals_served(folder.path()), BEFORE);
}

#[test]
fn a_database_that_another_process_has_open_is_not_replaced_under_it() {
    let (folder, _) = with_backup();
    let other = Connection::open(folder.path().join(SOURCE)).expect("a database");
    other
        .execute_batch("BEGIN; SELECT * FROM pets")
        .expect("a read");
    let line = restore(folder.path()).refuses(1);
    assert!(
        line.contains("cannot restore animal-store.db: database is locked"),
        "{line}"
    );
    other.execute_batch("COMMIT").expect("an end");
    drop(other);
    assert_eq!(animals_served(folder.path()), AFTER);
    restore(folder.path()).exits(0);
    assert_eq!(animals_served(folder.path()), BEFORE);
}

#[test]
fn what_is_no_backup_changes_nothing() {
    let (folder, _) = with_backup();
    let path = |name: &str| folder.path().join(name);
    let good = fs::read(path("monday.db")).expect("a file");
    fs::write(path("text.db"), "text".repeat(1_000)).expect("a file");
    fs::write(path("empty.db"), "").expect("a file");
    fs::write(path("cut.db"), &good[..good.len() / 2]).expect("a file");
    fs::write(path("logged.db"), &good).expect("a file");
    fs::write(path("logged.db-wal"), "log").expect("a file");
    fs::create_dir(path("folder")).expect("a folder");
    symlink(SOURCE, path("link.db")).expect("a link");
    let other = Connection::open(path("other.db")).expect("a database");
    other
        .execute_batch("CREATE TABLE notes (text)")
        .expect("a table");
    drop(other);
    fs::write(path("newer.db"), &good).expect("a file");
    let newer = Connection::open(path("newer.db")).expect("a database");
    newer
        .pragma_update(None, "user_version", 99)
        .expect("a format");
    drop(newer);
    let before = names(folder.path());
    for (name, code, part) in [
        ("missing.db", 1, "missing.db does not exist: name a backup"),
        (
            "text.db",
            1,
            "text.db is not a SQLite database: name a backup",
        ),
        ("empty.db", 1, "empty.db is empty: name a backup"),
        ("cut.db", 1, "cut.db is damaged ("),
        (
            "logged.db",
            1,
            "logged.db has a -wal or -journal next to it",
        ),
        ("folder", 1, "folder is a folder: name a backup in it"),
        (
            "other.db",
            1,
            "other.db is a SQLite database of another program",
        ),
        (
            "newer.db",
            1,
            "newer.db has format 99, and this version knows formats up to ",
        ),
        (SOURCE, 2, "animal-store.db is the database itself"),
        ("link.db", 2, "link.db is the database itself"),
        ("./animal-store.db", 2, "is the database itself"),
    ] {
        let line = run(folder.path(), &[], &["restore", name, "--yes"]).refuses(code);
        assert!(line.contains(part), "{name}: {line}");
        assert_eq!(names(folder.path()), before, "{name}");
    }
    // Nor does one that would replace what is not ours.
    for (target, part) in [
        ("sqlite:other.db", "database of another program"),
        ("sqlite:folder", "it is a folder"),
        ("sqlite:nowhere/a.db", "its folder does not exist"),
    ] {
        let words = ["restore", "monday.db", "--yes", "--database", target];
        let line = run(folder.path(), &[], &words).refuses(1);
        assert!(line.contains(part), "{target}: {line}");
    }
    let words = [
        "restore",
        "monday.db",
        "--yes",
        "--database",
        "postgres://me:secret@db/a",
    ];
    assert_eq!(
        run(folder.path(), &[], &words).refuses(2),
        "animal-store: restore is for the embedded database: restore postgres://db:5432/a with pg_restore --clean --if-exists --dbname=URL FILE"
    );
    assert_eq!(names(folder.path()), before);
    assert_eq!(animals_served(folder.path()), AFTER);
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
    assert_eq!(animals_served(folder.path()), BEFORE);
    let data = names(&folder.path().join("data"));
    assert!(
        data.len() == 2 && data[1].starts_with("real.db.before-restore-"),
        "{data:?}"
    );
    assert_eq!(animals(&folder.path().join("data").join(&data[1])), AFTER);

    let new = [
        "restore",
        "latest.db",
        "--yes",
        "--database",
        "sqlite:new.db",
        "--json",
    ];
    let report: Value =
        serde_json::from_str(&run(folder.path(), &[], &new).exits(0).stdout).expect("JSON");
    assert_eq!(report["kept"], Value::Null);
    assert_eq!(animals(&folder.path().join("new.db")), BEFORE);
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
    assert_eq!(animals_served(folder.path()), BEFORE);
}

#[test]
fn a_full_disk_and_a_missing_permission_leave_everything_as_it_was() {
    for (inject, part) in [
        (
            "inject=copy_file_range:error=ENOSPC",
            "No space left on device",
        ),
        ("inject=pwrite64:error=ENOSPC", "animal-store.db"),
        ("inject=link,linkat:error=EPERM", "Operation not permitted"),
    ] {
        let (folder, _) = with_backup();
        let words = ["-f", "-o", "/dev/null", "-e", inject];
        let command = [PROGRAM, "restore", "monday.db", "--yes"];
        let line =
            harness::run("strace", folder.path(), &[&words[..], &command].concat()).refuses(1);
        assert!(line.contains(part), "{inject}: {line}");
        assert_eq!(animals_served(folder.path()), AFTER, "{inject}");
        assert_eq!(kept(folder.path()).len(), 0, "{inject}");
        assert!(
            names(folder.path())
                .iter()
                .all(|name| !name.contains(".new-")),
            "{inject}"
        );
    }
}

#[test]
fn a_command_that_starts_while_a_restore_replaces_the_file_does_not_remove_the_kept_one() {
    let (folder, _) = with_backup();
    let inject = "inject=rename,renameat,renameat2:delay_enter=3000000";
    let words = ["-f", "-o", "/dev/null", "-e", inject];
    let command = [PROGRAM, "restore", "monday.db", "--yes"];
    let words = [&words[..], &command].concat();
    std::thread::scope(|scope| {
        let restore = scope.spawn(|| harness::run("strace", folder.path(), &words));
        harness::eventually(
            Duration::from_secs(30),
            "the old file has a second name",
            || !kept(folder.path()).is_empty(),
        );
        let create = ["keys", "create", "--name", "a", "--plan", "free"];
        let line = harness::run(PROGRAM, folder.path(), &create).refuses(1);
        assert!(line.contains("in use"), "{line}");
        restore.join().expect("the restore").exits(0);
    });
    assert_eq!(kept(folder.path()).len(), 1, "{:?}", names(folder.path()));
}
