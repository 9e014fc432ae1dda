//! `serve --backup-folder` if a backup cannot be made, or the server is killed while it makes one.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use harness::{Process, eventually};
use serde_json::json;

use crate::backups::{LAST, SOON, animals, backups, databases, path, serve, with_folders};
use crate::calls::names;
use crate::metrics::value;
use crate::permission::{allow, run as run_unprivileged};
use crate::{FREE_PORTS, PROGRAM, folder, logged, run};

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
    assert!(log.contains("backups succeed again"), "{log}");
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
    // Before the list or the backup gets its name, and after both have theirs: the ninth sync is that of the folder after that.
    for (call, when, complete) in [("rename", 1, 0), ("renameat2", 1, 0), ("fsync", 9, 1)] {
        let (folder, _) = with_folders();
        let inject = format!("inject={call}:signal=SIGKILL:when={when}");
        let strace = ["20", "strace", "-f", "-o", "/dev/null", "-e", &inject];
        let args = [PROGRAM, "serve", "--backup-folder", "backups"];
        let args = [&strace[..], &args, &FREE_PORTS].concat();
        let output = harness::run("timeout", folder.path(), &args);
        // strace and timeout end as it does.
        assert_eq!(output.code, None, "{call}: {output:?}");
        let first = backups(&folder);
        assert_eq!(first.len(), complete, "{call}: {first:?}");
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
fn options_of_backups_without_a_folder_are_rejected_except_defaults_in_a_configuration_file() {
    let folder = folder();
    fs::write(folder.path().join("file"), "backup-keep = 7\n").expect("a file");
    fs::write(folder.path().join("defaults"), "backup-keep = 24\n").expect("a file");
    let every = ("ANIMAL_STORE_BACKUP_EVERY", "1h");
    for (words, vars, options) in [
        (&["--backup-every", "1h"][..], &[][..], "--backup-every"),
        (&["--config", "file"], &[], "--backup-keep"),
        (
            &["--config", "file"],
            &[every],
            "--backup-every and --backup-keep",
        ),
    ] {
        let line = run(folder.path(), vars, &[&["serve"], words].concat()).fails_with(2);
        assert_eq!(
            line,
            format!(
                "animal-store: no backups are made without --backup-folder: add it, or remove {options}"
            )
        );
    }
    let with_folder = ["--config", "file", "--backup-folder", "."];
    for words in [&["--config", "defaults"][..], &with_folder] {
        let mut server = Process::serve(PROGRAM, folder.path(), words);
        server.signal("TERM");
        assert_eq!(server.ends_within(Duration::from_secs(10)), Some(0));
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

#[test]
fn a_backup_that_cannot_be_looked_at_stays_on_the_list_and_others_are_made() {
    let (folder, _) = with_folders();
    let server = serve(&folder, "1h", "1");
    eventually(SOON, "a backup", || backups(&folder).len() == 1);
    drop(server);
    let damaged = backups(&folder).remove(0);
    let whole = path(&folder, &damaged);
    let (whole, backup_folder) = (whole.display(), folder.path().join("backups"));
    let strace = format!("-D -f -o calls -P {whole} -e inject=statx,newfstatat:error=EIO");
    let options = format!(
        "serve --backup-folder {} --backup-every 1s --backup-keep 1 --no-first-key",
        backup_folder.display()
    );
    let words = strace.split(' ').chain([PROGRAM]);
    let args: Vec<_> = words.chain(options.split(' ')).chain(FREE_PORTS).collect();
    let _server = Process::start("strace", folder.path(), &args, &[]);
    let mut seen = BTreeSet::new();
    eventually(SOON, "three more backups", || {
        seen.extend(backups(&folder));
        seen.len() == 4
    });
    eventually(SOON, "the others are deleted in their turn", || {
        backups(&folder).len() == 2
    });
    assert!(backups(&folder).contains(&damaged));
    let list = path(&folder, "animal-store-backups.list");
    let list = fs::read_to_string(list).expect("a list");
    assert!(list.contains(&damaged), "{list}");
}
