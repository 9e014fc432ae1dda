//! Files that the operator may not use: the message says so, and names the operator's file.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use harness::{Output, Process};

use crate::{FREE_PORTS, PROGRAM, folder};

/// Runs the program as root without the capabilities that override file permissions, or as the current user.
pub(crate) fn run(folder: &Path, args: &[&str]) -> Output {
    let is_root = fs::metadata("/proc/self").expect("a process");
    let is_root = is_root.uid() == 0;
    if !is_root {
        return crate::run(folder, &[], args);
    }
    let mut all = vec!["--bounding-set=-dac_override,-dac_read_search", PROGRAM];
    all.extend(args);
    harness::run("setpriv", folder, &all)
}

pub(crate) fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_permission_problem_is_reported_as_one_and_names_the_operators_file() {
    let serve = [&["serve"], &FREE_PORTS[..]].concat();
    let list = ["keys", "list"];
    let database = ["--database", "sqlite:data/shop.db"];
    // The mode of the folder and of the file in it, and the message then.
    for (folder_mode, file_mode, args, message) in [
        (
            0o555,
            None,
            &serve[..],
            "permission denied: cannot create data/shop.db in data",
        ),
        (
            0o755,
            Some(0o000),
            &serve[..],
            "permission denied: cannot open data/shop.db for reading",
        ),
        (
            0o755,
            Some(0o000),
            &list[..],
            "permission denied: cannot open data/shop.db for reading",
        ),
        (
            0o755,
            Some(0o444),
            &serve[..],
            "permission denied: cannot open data/shop.db for writing",
        ),
        (
            0o555,
            Some(0o644),
            &serve[..],
            "permission denied: cannot open data/shop.db for writing, because SQLite keeps its write-ahead log next to it and data is not writable",
        ),
        (
            0o000,
            Some(0o644),
            &list[..],
            "permission denied: cannot enter data to open data/shop.db",
        ),
        (
            0o000,
            Some(0o644),
            &serve[..],
            "permission denied: cannot enter data to open data/shop.db",
        ),
    ] {
        let folder = folder();
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        if let Some(mode) = file_mode {
            run(folder.path(), &[&["migrate"][..], &database].concat()).exits(0);
            allow(&data.join("shop.db"), mode);
        }
        allow(&data, folder_mode);
        let line = run(folder.path(), &[args, &database].concat()).fails_with(1);
        allow(&data, 0o755);
        assert_eq!(line, format!("animal-store: {message}"), "{args:?}");
    }
}

#[test]
fn a_problem_that_no_permission_would_solve_is_not_reported_as_a_missing_one() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    symlink("nowhere.db", data.join("link.db")).expect("a link");
    allow(&data, 0o555);
    for (args, message) in [
        (
            ["backup", "b.db", "--database", "sqlite:data/shop.db"],
            "cannot open data/shop.db: there is no database",
        ),
        (
            ["keys", "list", "--database", "sqlite:data"],
            "cannot open data: it is a folder: specify a file in it",
        ),
        (
            ["keys", "list", "--database", "sqlite:data/link.db"],
            "cannot open data/link.db: it is a symbolic link to a file that does not exist",
        ),
    ] {
        let line = run(folder.path(), &args).fails_with(1);
        assert!(line.contains(message), "{args:?}: {line}");
    }
    allow(&data, 0o755);
}

#[test]
fn a_missing_permission_is_that_of_the_file_itself_and_not_of_a_symbolic_link_to_it() {
    let folder = folder();
    for name in ["data", "links"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let database = ["--database", "sqlite:data/shop.db"];
    run(folder.path(), &[&["migrate"][..], &database].concat()).exits(0);
    symlink("../data/shop.db", folder.path().join("links/shop.db")).expect("a link");
    let data = folder.path().join("data");
    allow(&data, 0o555);
    let serve = ["serve", "--database", "sqlite:links/shop.db"];
    let line = run(folder.path(), &[&serve, &FREE_PORTS[..]].concat()).fails_with(1);
    allow(&data, 0o755);
    assert!(
        line.contains("cannot open links/shop.db for writing, because SQLite keeps its write-ahead log next to it")
            && line.contains(&format!("{} is not writable", data.display())),
        "{line}"
    );
}

#[test]
fn a_missing_permission_leaves_no_part_of_a_backup_a_restore_or_a_copy() {
    let database = ["--database", "sqlite:data/shop.db"];
    let backup = [&["backup", "data/copy.db"], &database[..]].concat();
    let restore = [&["restore", "good.db", "--yes"], &database[..]].concat();
    let unreadable = [
        &["restore", "data/shop.db", "--yes"],
        &["--database", "sqlite:new.db"][..],
    ]
    .concat();
    let (from, to) = ("sqlite:data/shop.db", "sqlite:data/new.db");
    let copy_from = ["copy", "--from", from, "--to", "sqlite:new.db"];
    let copy_to = ["copy", "--from", "sqlite:good.db", "--to", to];
    for (folder_mode, file_mode, args, message) in [
        (
            0o755,
            0o000,
            &backup[..],
            "cannot open data/shop.db for reading",
        ),
        (
            0o555,
            0o644,
            &backup[..],
            "cannot write data/copy.db: Permission denied",
        ),
        (
            0o555,
            0o644,
            &restore[..],
            "cannot open data/shop.db for writing",
        ),
        (
            0o755,
            0o000,
            &restore[..],
            "cannot open data/shop.db for reading",
        ),
        (
            0o755,
            0o000,
            &unreadable[..],
            "data/shop.db cannot be read: Permission denied",
        ),
        (
            0o755,
            0o000,
            &copy_from[..],
            "--from: permission denied: cannot open data/shop.db for reading",
        ),
        (
            0o555,
            0o644,
            &copy_to[..],
            "--to: permission denied: cannot create data/new.db in data",
        ),
    ] {
        let folder = folder();
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        run(folder.path(), &[&["migrate"][..], &database].concat()).exits(0);
        run(
            folder.path(),
            &[&["backup", "good.db"], &database[..]].concat(),
        )
        .exits(0);
        let names = |path: &Path| {
            let entries = fs::read_dir(path).expect("a folder");
            let mut names: Vec<_> = entries
                .map(|entry| entry.expect("a name").file_name())
                .collect();
            names.sort();
            names
        };
        let before = (names(folder.path()), names(&data));
        allow(&data.join("shop.db"), file_mode);
        allow(&data, folder_mode);
        let line = run(folder.path(), args).fails_with(1);
        allow(&data, 0o755);
        assert!(line.contains(message), "{args:?}: {line}");
        assert_eq!((names(folder.path()), names(&data)), before, "{args:?}");
    }
}

#[test]
fn a_configuration_that_may_not_be_read_is_reported_as_a_permission_problem() {
    let folder = folder();
    fs::write(folder.path().join("c.toml"), "").expect("a file");
    allow(&folder.path().join("c.toml"), 0o000);
    let line = run(folder.path(), &["serve", "--config", "c.toml"]).fails_with(2);
    assert_eq!(
        line,
        "animal-store: --config c.toml: permission denied: cannot read the file"
    );
}

#[test]
fn files_that_root_creates_belong_to_the_owner_of_their_folder() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    // Without root, the user owns all of them anyway.
    let _ = chown(&data, Some(12_345), Some(23_456));
    let owner = |path: &Path| fs::metadata(path).map(|file| (file.uid(), file.gid()));
    let expected = owner(&data).expect("a folder");
    let args = ["--database", "sqlite:data/shop.db"];
    crate::run(folder.path(), &[], &[&["migrate"], &args[..]].concat()).exits(0);
    let _server = Process::serve(PROGRAM, folder.path(), &args);
    for name in ["shop.db", "shop.db-wal", "shop.db-shm", "shop.db.lock"] {
        let found = owner(&data.join(name)).expect(name);
        assert_eq!(found, expected, "{name}");
    }
    // A container may not let root change owners: it serves all the same.
    let other = [
        "--bounding-set=-chown",
        PROGRAM,
        "migrate",
        "--database",
        "sqlite:data/other.db",
    ];
    harness::run("setpriv", folder.path(), &other).exits(0);
}

#[test]
fn without_permission_to_change_owners_a_restore_and_a_backup_lock_nobody_out_and_let_nobody_in() {
    let (owner, group, other) = (12_345, 23_456, 34_567);
    for (operators, before, after, warning) in [
        (
            group,
            0o660,
            (0, group, 0o660),
            "had owner 12345:23456, mode 660, and now has owner 0:23456, mode 660: if the server cannot open it, run as root `chown 12345:23456 animal-store.db`",
        ),
        (
            other,
            0o640,
            (0, 0, 0o600),
            "had owner 12345:23456, mode 640, and now has owner 0:0, mode 600: if the server cannot open it, run as root `chown 12345:23456 animal-store.db && chmod 640 animal-store.db`",
        ),
        (
            other,
            0o664,
            (0, 0, 0o644),
            "had owner 12345:23456, mode 664, and now has owner 0:0, mode 644: if the server cannot open it, run as root `chown 12345:23456 animal-store.db && chmod 664 animal-store.db`",
        ),
        (
            other,
            0o604,
            (0, 0, 0o600),
            "had owner 12345:23456, mode 604, and now has owner 0:0, mode 600: if the server cannot open it, run as root `chown 12345:23456 animal-store.db && chmod 604 animal-store.db`",
        ),
    ] {
        let folder = folder();
        crate::run(folder.path(), &[], &["migrate"]).exits(0);
        crate::run(folder.path(), &[], &["backup", "monday.db"]).exits(0);
        let database = folder.path().join("animal-store.db");
        chown(&database, Some(owner), Some(group)).expect("tests run as root");
        allow(&database, before);
        let groups = format!("--groups={operators}");
        let without_chown = |args: &[&str]| {
            let as_operator = ["--bounding-set=-chown", &groups, PROGRAM];
            let args = [&as_operator[..], args].concat();
            harness::run("setpriv", folder.path(), &args).exits(0)
        };
        let access = |name: &str| {
            let file = fs::metadata(folder.path().join(name)).expect(name);
            (file.uid(), file.gid(), file.mode() & 0o777)
        };
        without_chown(&["backup", "copy.db"]);
        assert_eq!(access("copy.db"), after, "{before:o}");
        let restored = without_chown(&["restore", "monday.db", "--yes"]);
        assert_eq!(access("animal-store.db"), after, "{before:o}");
        let warning = format!("animal-store: warning: animal-store.db {warning}\n");
        assert_eq!(restored.stderr, warning);
    }
}
