//! `animal-store copy` from one file to another: its progress, and what it leaves behind when it is killed or the disk is full.

use std::fs;
use std::path::Path;

use crate::calls::{disk_full_from_each, killed_at_each, names};
use crate::permission::{allow, run as run_unprivileged};
use crate::{PROGRAM, folder, large_key, run};

pub(super) const COPY: [&str; 5] = [
    "copy",
    "--from",
    "sqlite:animal-store.db",
    "--to",
    "sqlite:new.db",
];

#[test]
fn what_a_killed_copy_leaves_behind_is_removed_by_the_next_one() {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    let mut left = false;
    killed_at_each(folder.path(), &COPY, |folder, when| {
        left |= names(folder)
            .iter()
            .any(|name| name.ends_with("-wal") && name.contains(".new-"));
        run(folder, &[], &COPY).exits(0);
        assert_eq!(names(folder), ["animal-store.db", "new.db"], "{when}");
    });
    assert!(left, "never killed while it created the target");
}

/// Fails if there is a part of a file, or a lock. SQLite itself leaves its log where there is no room for it.
fn assert_clean(folder: &Path, when: &str) {
    let left = names(folder);
    let is_left = |name: &String| name.contains(".new-") || name.ends_with(".lock");
    assert!(!left.iter().any(is_left), "{when}: {left:?}");
}

#[test]
fn a_full_disk_leaves_the_target_missing_or_empty_and_no_part_of_it() {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    let full = disk_full_from_each(folder.path(), &COPY, |folder, when| {
        assert_clean(folder, when);
        run(folder, &[], &COPY).exits(0);
    });
    assert!(full.contains("pwrite64"));
}

#[test]
fn a_database_that_a_full_disk_keeps_from_being_created_leaves_no_part_of_it() {
    let folder = folder();
    let full = disk_full_from_each(folder.path(), &["migrate"], |folder, when| {
        assert_clean(folder, when);
        run(folder, &[], &["migrate"]).exits(0);
    });
    assert!(full.contains("pwrite64"));
}

#[test]
fn text_that_is_not_utf_8_ends_a_copy_and_leaves_no_target() {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    let database =
        rusqlite::Connection::open(folder.path().join("animal-store.db")).expect("a database");
    let insert =
        "INSERT INTO pets (name, category_id, status) VALUES (CAST(x'52ff' AS TEXT), 1, 'sold')";
    database.execute(insert, ()).expect("an animal");
    drop(database);
    let line = run(folder.path(), &[], &COPY).fails_with(1);
    assert!(line.contains("invalid utf-8"), "{line}");
    assert_eq!(names(folder.path()), ["animal-store.db"]);
}

#[test]
fn the_progress_bar_counts_every_row_once_while_it_copies_and_once_while_it_compares() {
    let folder = folder();
    large_key(folder.path());
    crate::backup::fill(folder.path(), 50_000);
    let command = format!("stty cols 120; exec {PROGRAM} {}", COPY.join(" "));
    let (code, shown) = harness::on_terminal(folder.path(), &command, &[], "");
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("s: 50000 animals, 0 orders, 1 key; both"),
        "{shown}"
    );
    for step in ["copying ", "comparing "] {
        let bars = shown.split('\r').filter(|bar| bar.contains(step));
        let ends: Vec<&str> = bars.filter_map(|bar| bar.split(" of ").nth(1)).collect();
        assert!(!ends.is_empty(), "no {step}: {shown:?}");
        // The animals, the key, and a few rows of other tables.
        let all = |end: &&str| end.starts_with("50,00") && end.contains(" rows");
        assert!(ends.iter().all(all), "{ends:?}");
        let rates = ends.iter().filter_map(|end| end.split(", ").nth(1));
        assert!(
            rates
                .clone()
                .all(|rate| rate.ends_with("/s") && !rate.contains('.')),
            "{ends:?}"
        );
    }
}

#[test]
fn a_copy_whose_commit_sqlite_rejects_fails_with_its_reason_and_leaves_the_target_as_it_was() {
    let folder = folder();
    large_key(folder.path());
    run(
        folder.path(),
        &[],
        &["migrate", "--database", "sqlite:new.db"],
    )
    .exits(0);
    let target = rusqlite::Connection::open(folder.path().join("new.db")).expect("a database");
    // A table of somebody else's refers to a row that the copy replaces. SQLite checks that when it commits.
    let refer = "PRAGMA foreign_keys = ON;
         CREATE TABLE mine (what TEXT REFERENCES revisions (what) DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO revisions (what, number) VALUES ('mine', 7);
         INSERT INTO mine VALUES ('mine')";
    target.execute_batch(refer).expect("a reference");
    let keys = || {
        let args = ["keys", "list", "--json", "--database", "sqlite:new.db"];
        run(folder.path(), &[], &args).exits(0).stdout
    };
    let revisions = || {
        let read =
            "SELECT group_concat(what || number) FROM (SELECT * FROM revisions ORDER BY what)";
        let read = target.query_row(read, (), |row| row.get::<_, String>(0));
        read.expect("revisions")
    };
    let before = revisions();
    let line = run(folder.path(), &[], &COPY).fails_with(1);
    let wanted = "animal-store: --to: the store failed: FOREIGN KEY constraint failed";
    assert_eq!(line, wanted);
    assert_eq!((keys().trim(), revisions()), ("[]", before));
    target.execute_batch("DROP TABLE mine").expect("no table");
    run(folder.path(), &[], &COPY).exits(0);
    assert_ne!(keys().trim(), "[]");
}

#[test]
fn a_copy_whose_commit_could_not_be_synced_has_an_unknown_outcome() {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    let log = format!("{}-wal", folder.path().join("new.db").display());
    let inject = "inject=fsync,fdatasync:error=EIO";
    let strace = ["-f", "-o", "/dev/null", "-P", &log, "-e", inject, PROGRAM];
    let output = harness::run("strace", folder.path(), &[&strace[..], &COPY].concat());
    assert_eq!(
        output.fails_with(1),
        "animal-store: --to: disk I/O error; it is unknown whether the copy is complete: run it again, and if it fails because of rows in the target, it is complete"
    );
}

#[test]
fn a_copy_does_not_write_to_its_source_which_may_be_read_only() {
    let folder = folder();
    let run = |args: &[&str]| run_unprivileged(folder.path(), args).exits(0);
    run(&["migrate"]);
    run(&["backup", "backup.db"]);
    // The backup is not in WAL mode.
    for (name, mode) in [("animal-store.db", 0o600), ("backup.db", 0o444)] {
        let path = folder.path().join(name);
        allow(&path, mode);
        let state = || {
            let modified = path.metadata().and_then(|file| file.modified());
            (fs::read(&path).expect("a file"), modified.expect("a time"))
        };
        let (before, mut names_after) = (state(), names(folder.path()));
        let (from, to) = (format!("sqlite:{name}"), format!("sqlite:new-{name}"));
        run(&["copy", "--from", &from, "--to", &to]);
        assert!(state() == before, "{name} has changed");
        names_after.push(format!("new-{name}"));
        names_after.sort();
        assert_eq!(names(folder.path()), names_after);
    }
}
