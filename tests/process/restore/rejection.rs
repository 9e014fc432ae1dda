//! What cannot be restored, and what is not replaced.

use std::fs;
use std::os::unix::fs::symlink;

use rusqlite::Connection;

use super::{IN_DATABASE, SOURCE, animals_served, with_backup};
use crate::calls::names;
use crate::run;

#[test]
fn what_is_not_a_backup_changes_nothing() {
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
    symlink("nothing.db", path("dangling.db")).expect("a link");
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
        (
            "missing.db",
            1,
            "missing.db does not exist: specify a backup",
        ),
        (
            "text.db",
            1,
            "text.db is not a SQLite database: specify a backup",
        ),
        ("empty.db", 1, "empty.db is empty: specify a backup"),
        ("cut.db", 1, "cut.db is damaged ("),
        (
            "logged.db",
            1,
            "logged.db has a -wal or -journal next to it",
        ),
        ("folder", 1, "folder is a folder: specify a backup in it"),
        (
            "other.db",
            1,
            "other.db is a SQLite database of another program",
        ),
        (
            "newer.db",
            1,
            "newer.db has format 99, and this version supports formats up to ",
        ),
        (SOURCE, 2, "animal-store.db is the database itself"),
        ("link.db", 2, "link.db is the database itself"),
        ("./animal-store.db", 2, "is the database itself"),
    ] {
        let line = run(folder.path(), &[], &["restore", name, "--yes"]).fails_with(code);
        assert!(line.contains(part), "{name}: {line}");
        assert_eq!(names(folder.path()), before, "{name}");
    }
    // Nor does one that would replace what is not ours.
    for (target, part) in [
        ("sqlite:other.db", "database of another program"),
        ("sqlite:folder", "it is a folder"),
        ("sqlite:nowhere/a.db", "its folder does not exist"),
        (
            "sqlite:dangling.db",
            "cannot open dangling.db: it is a symbolic link to a file that does not exist: use the path of that file",
        ),
    ] {
        let args = ["restore", "monday.db", "--yes", "--database", target];
        let line = run(folder.path(), &[], &args).fails_with(1);
        assert!(line.contains(part), "{target}: {line}");
    }
    let args = [
        "restore",
        "monday.db",
        "--yes",
        "--database",
        "postgres://me:secret@db/a",
    ];
    assert_eq!(
        run(folder.path(), &[], &args).fails_with(2),
        "animal-store: restore is for the embedded database: to restore postgres://db:5432/a, stop all nodes, and use pg_restore --dbname=URL FILE on an empty database"
    );
    assert_eq!(names(folder.path()), before);
    assert_eq!(animals_served(folder.path()), IN_DATABASE);
}
