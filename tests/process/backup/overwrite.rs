//! What a backup replaces: nothing without `--force`, and never a file of a database.

use std::fs;
use std::os::unix::net::UnixListener;

use rusqlite::Connection;

use super::{SOURCE, animals, with_database};
use crate::calls::names;
use crate::run;

#[test]
fn a_file_that_exists_is_replaced_only_with_force() {
    let folder = with_database();
    let copy = folder.path().join("copy.db");
    fs::write(&copy, "precious").expect("a file");
    let line = run(folder.path(), &[], &["backup", "copy.db"]).fails_with(2);
    assert_eq!(
        line,
        "animal-store: copy.db already exists: choose another name, or use --force to replace it"
    );
    assert_eq!(fs::read(&copy).expect("a file"), b"precious");
    run(folder.path(), &[], &["backup", "copy.db", "--force"]).exits(0);
    assert_eq!(animals(&copy), [0; 0]);
}

#[test]
fn the_database_itself_another_one_in_use_and_what_is_not_a_file_are_never_replaced() {
    let folder = with_database();
    fs::hard_link(folder.path().join(SOURCE), folder.path().join("link.db")).expect("a link");
    fs::write(folder.path().join("other.db-wal"), "log").expect("a file");
    fs::create_dir(folder.path().join("folder")).expect("a folder");
    let _socket = UnixListener::bind(folder.path().join("socket")).expect("a socket");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, folder.path().join(name)).expect("a link");
    };
    link("nothing", "dangling");
    let before = fs::read(folder.path().join(SOURCE)).expect("a file");
    // As a running server does, this keeps a -wal and a -shm next to the file. A link leads to the latter.
    let open = Connection::open(folder.path().join(SOURCE)).expect("a database");
    let count = open.query_row("SELECT count(*) FROM pets", (), |row| row.get::<_, i64>(0));
    count.expect("a count");
    link("animal-store.db-shm", "to-shm");
    let files = names(folder.path());
    for (name, part) in [
        (SOURCE, "belongs to the database itself"),
        ("link.db", "belongs to the database itself"),
        ("./animal-store.db-wal", "belongs to the database itself"),
        ("./animal-store.db.lock", "belongs to the database itself"),
        ("to-shm", "belongs to the database itself"),
        ("other.db", "has a -wal or -journal next to it"),
        (
            "dangling",
            "is a symbolic link to a file that does not exist",
        ),
        ("folder", "is not a regular file"),
        ("socket", "is not a regular file"),
        (
            "-",
            "a backup is a file, not a stream: name the file to write",
        ),
    ] {
        let line = run(folder.path(), &[], &["backup", name, "--force"]).fails_with(2);
        assert!(line.contains(part), "{name}: {line}");
    }
    assert_eq!(
        fs::read(folder.path().join(SOURCE)).expect("a file"),
        before
    );
    assert_eq!(names(folder.path()), files);
}

#[test]
fn neither_a_backup_nor_an_export_replaces_a_file_of_a_database_that_a_link_names() {
    let folder = with_database();
    fs::create_dir(folder.path().join("real")).expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::rename(at(SOURCE), at("real/a.db")).expect("it is moved");
    std::os::unix::fs::symlink("real/a.db", at("link.db")).expect("a link");
    // As that of a running server, which a second link leads to.
    fs::write(at("real/a.db-shm"), "").expect("a file");
    std::os::unix::fs::symlink("real/a.db-shm", at("to-shm")).expect("a link");
    let parts =
        ["", "-wal", "-shm", "-journal", ".lock", ".import"].map(|end| format!("a.db{end}"));
    let mut files: Vec<String> = parts.iter().map(|part| format!("real/{part}")).collect();
    files.extend(["link.db".into(), "to-shm".into()]);
    for file in &files {
        for words in [&["backup"][..], &["pets", "export", "--format", "csv"]] {
            let rest = [file, "--force", "--database", "sqlite:link.db"];
            let line = run(folder.path(), &[], &[words, &rest].concat()).fails_with(2);
            assert!(line.contains("belongs to the database itself"), "{line}");
        }
    }
    assert_eq!(names(&at("real")), ["a.db", "a.db-shm"]);
}

#[test]
fn an_export_does_not_replace_another_database() {
    let folder = with_database();
    let other = "sqlite:other.db";
    run(folder.path(), &[], &["migrate", "--database", other]).exits(0);
    // As that of a server that has just begun, all of which is in its log.
    let at = |name: &str| folder.path().join(name);
    fs::write(at("empty.db"), "").expect("a file");
    fs::write(at("empty.db-wal"), "a log").expect("a file");
    for (name, format) in [("other.db", "csv"), ("empty.db", "ndjson")] {
        let before = fs::read(at(name)).expect("a file");
        let export = ["pets", "export", name, "--force", "--format", format];
        let line = run(folder.path(), &[], &export).fails_with(2);
        assert!(line.contains("is a database of SQLite"), "{line}");
        assert_eq!(fs::read(at(name)).expect("a file"), before);
    }
}
