//! Whatever happens, the previous database or the backup is there, whole, and the other one is not lost.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::time::Duration;

use super::{
    IN_BACKUP, IN_DATABASE, KEPT, SOURCE, animals, animals_served, kept, restore, with_backup,
};
use crate::calls::{disk_full_from_each, killed_at_each, names};
use crate::{PROGRAM, run};

const RESTORE: [&str; 3] = ["restore", "monday.db", "--yes"];

#[test]
fn a_restore_killed_at_any_call_that_changes_a_file_leaves_the_old_or_the_new_database_and_loses_no_commit()
 {
    let (original, _) = with_backup();
    let mut states = BTreeSet::new();
    let killed = killed_at_each(original.path(), &RESTORE, |folder, when| {
        // Everything that a server would do to open it.
        run(folder, &[], &["migrate"]).exits(0);
        let found = animals_served(folder);
        let counts: Vec<i64> = kept(folder).iter().map(|path| animals(path)).collect();
        assert!(
            (found == IN_DATABASE && counts.is_empty())
                || (found == IN_BACKUP && counts == [IN_DATABASE]),
            "{when}: {found} animals, kept {counts:?}, {:?}",
            names(folder)
        );
        states.insert(found);
        if found == IN_DATABASE {
            // What it left is no obstacle.
            restore(folder).exits(0);
            assert_eq!(animals_served(folder), IN_BACKUP, "{when}");
        }
        let left = names(folder);
        assert!(
            left.iter().all(|name| !name.contains(".new-")),
            "{when}: {left:?}"
        );
    });
    assert_eq!(
        states.into_iter().collect::<Vec<_>>(),
        [IN_BACKUP, IN_DATABASE]
    );
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

/// A power failure could otherwise bring back the log of the previous database, next to the new one.
#[test]
fn the_last_change_of_the_folder_is_on_disk_before_the_backup_gets_the_name_of_the_database() {
    for is_damaged in [false, true] {
        let (folder, _) = with_backup();
        if is_damaged {
            fs::write(folder.path().join(SOURCE), "not a database any more").expect("a file");
        }
        let trace = "trace=unlink,linkat,rename,fsync";
        let strace = ["-f", "-y", "-o", "calls", "-e", trace, PROGRAM];
        let command = [&strace[..], &RESTORE].concat();
        harness::run("strace", folder.path(), &command).exits(0);
        let calls = fs::read_to_string(folder.path().join("calls")).expect("a file");
        let lines: Vec<&str> = calls.lines().collect();
        let is_rename = |call: &&str| call.contains("rename(") && call.contains(".new-");
        let named = lines.iter().rposition(is_rename).expect(&calls);
        let change = |call: &&str| {
            let is_change = ["unlink(", "linkat(", "rename("].map(|name| call.contains(name));
            is_change.contains(&true) && call.contains(SOURCE)
        };
        let last = lines[..named].iter().rposition(change).expect(&calls);
        let end = format!("<{}>", folder.path().display());
        let is_synced = |call: &&str| call.contains("fsync(") && call.contains(&end);
        assert!(lines[last..named].iter().any(is_synced), "{calls}");
    }
}

/// A power failure could otherwise lose what was only in the log.
#[test]
fn the_log_of_the_old_database_is_removed_only_after_its_content_is_on_disk() {
    let (folder, _) = with_backup();
    let trace = "trace=pwrite64,fsync,fdatasync,unlink";
    let strace = ["-f", "-y", "-o", "calls", "-e", trace, PROGRAM];
    harness::run("strace", folder.path(), &[&strace[..], &RESTORE].concat()).exits(0);
    let calls = fs::read_to_string(folder.path().join("calls")).expect("a file");
    let lines: Vec<&str> = calls.lines().collect();
    let is_removal = |call: &&str| call.contains("unlink(") && call.contains("animal-store.db-wal");
    let removed = lines.iter().position(is_removal).expect(&calls);
    let file = format!("<{}>", folder.path().join(SOURCE).display());
    let is_write = |call: &&str| call.contains("pwrite64(") && call.contains(&file);
    let written = lines[..removed].iter().rposition(is_write).expect(&calls);
    let is_synced = |call: &&str| call.contains("sync(") && call.contains(&file);
    assert!(lines[written..removed].iter().any(is_synced), "{calls}");
}

#[test]
fn a_restored_database_opens_wherever_its_first_process_was_killed() {
    let (folder, _) = with_backup();
    restore(folder.path()).exits(0);
    let create = ["keys", "create", "--name", "a", "--plan", "free"];
    killed_at_each(folder.path(), &create, |folder, when| {
        run(folder, &[], &["migrate"]).exits(0);
        assert_eq!(animals_served(folder), IN_BACKUP, "{when}");
    });
}

#[test]
fn a_restore_without_an_old_database_that_was_killed_and_repeated_gives_it_to_the_owner_of_the_folder()
 {
    for number in 1..=3 {
        let (folder, _) = with_backup();
        fs::remove_file(folder.path().join(SOURCE)).expect("a file");
        chown(folder.path(), Some(12_345), Some(23_456)).expect("the tests run as root");
        let inject = format!("inject=rename:signal=SIGKILL:when={number}");
        let strace = ["-f", "-o", "/dev/null", "-e", &inject, PROGRAM];
        let killed = harness::run("strace", folder.path(), &[&strace[..], &RESTORE].concat());
        assert_ne!(killed.code, Some(0), "{inject}");
        restore(folder.path()).exits(0);
        let file = folder.path().join(SOURCE).metadata().expect("a file");
        assert_eq!((file.uid(), file.gid()), (12_345, 23_456), "{inject}");
    }
}

#[test]
fn a_database_that_cannot_be_opened_is_kept_with_all_its_files_wherever_the_restore_is_killed() {
    let (original, _) = with_backup();
    let damaged = b"not a database any more, but perhaps somebody can make use of it".repeat(100);
    fs::write(original.path().join(SOURCE), &damaged).expect("a file");
    let mode = Permissions::from_mode(0o640);
    fs::set_permissions(original.path().join(SOURCE), mode).expect("it is ours");
    let log = fs::read(original.path().join("animal-store.db-wal")).expect("a log");
    assert!(!log.is_empty());
    let mut rejected = BTreeSet::new();
    let killed = killed_at_each(original.path(), &RESTORE, |folder, when| {
        let opened = run(folder, &[], &["migrate"]);
        if opened.code != Some(0) {
            let line = opened.fails_with(1);
            rejected.insert(line.contains("run `animal-store restore FILE` again"));
            restore(folder).exits(0);
        }
        assert_eq!(animals_served(folder), IN_BACKUP, "{when}");
        let mode = folder.join(SOURCE).metadata().expect("a file").mode();
        assert_eq!(mode & 0o777, 0o640, "{when}");
        let kept = kept(folder);
        assert_eq!(kept.len(), 1, "{when}: {kept:?}");
        assert_eq!(fs::read(&kept[0]).expect("a file"), damaged, "{when}");
        let kept_log = PathBuf::from(format!("{}-wal", kept[0].display()));
        assert_eq!(fs::read(kept_log).expect("a log"), log, "{when}");
    });
    assert_eq!(
        rejected.len(),
        2,
        "rejected in some runs because the file is damaged, and in others because a restore was interrupted"
    );
    assert!(
        killed.contains("linkat") && killed.contains("rename"),
        "{killed:?}"
    );
}

#[test]
fn a_placeholder_with_a_name_that_no_restore_has_chosen_moves_no_file_to_another_folder() {
    let placeholder = "A restore of this database was interrupted: run `animal-store restore FILE` again. It is kept as:\n";
    let (folder, _) = with_backup();
    let victim = folder.path().join("victim");
    fs::write(&victim, "").expect("a file");
    let data = folder.path().join("data");
    let args = ["--database", "sqlite:data/animal-store.db"];
    for name in [
        "../victim",
        victim.to_str().expect("text"),
        &format!("{KEPT}folder/../../victim"),
        &format!("{KEPT}link"),
        "../victim-wal",
        "",
    ] {
        fs::create_dir_all(data.join(format!("{KEPT}folder"))).expect("a folder");
        symlink("../victim", data.join(format!("{KEPT}link"))).expect("a link");
        let text = format!("{placeholder}{name}\n");
        fs::write(data.join(SOURCE), text).expect("a file");
        fs::write(data.join("animal-store.db-wal"), "crafted").expect("a file");
        let before = names(folder.path());
        let line = run(folder.path(), &[], &[&["migrate"], &args[..]].concat()).fails_with(1);
        assert!(
            line.contains("run `animal-store restore FILE` again"),
            "{line}"
        );
        run(folder.path(), &[], &[&RESTORE, &args[..]].concat()).exits(0);
        assert_eq!(names(folder.path()), before, "{name}");
        assert_eq!(animals(&data.join(SOURCE)), IN_BACKUP, "{name}");
        let is_log = |name: &&String| name.starts_with(KEPT) && name.ends_with("-wal");
        let left = names(&data);
        let log = left.iter().find(is_log).expect("it is kept");
        let log = fs::read_to_string(data.join(log)).expect("a file");
        assert_eq!(log, "crafted", "{name}");
        fs::remove_dir_all(&data).expect("removed");
    }
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
        let args = ["-f", "-o", "/dev/null", "-e", inject];
        let command = [PROGRAM, "restore", "monday.db", "--yes"];
        let line =
            harness::run("strace", folder.path(), &[&args[..], &command].concat()).fails_with(1);
        assert!(line.contains(part), "{inject}: {line}");
        assert_eq!(animals_served(folder.path()), IN_DATABASE, "{inject}");
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
fn a_failed_sync_of_the_folder_leaves_the_old_database_with_one_name_or_is_reported_with_the_result()
 {
    // After the log is removed, after the previous database has got its second name, and after the new one is in place.
    for (when, is_replaced) in [(1, false), (2, false), (3, true)] {
        let (folder, _) = with_backup();
        run(folder.path(), &[], &["keys", "revoke", "1"]).exits(0);
        let path = folder.path().to_str().expect("text");
        let inject = format!("inject=fsync:error=EIO:when={when}");
        let strace = ["-f", "-o", "/dev/null", "-P", path, "-e", &inject, PROGRAM];
        let restore = [&strace[..], &RESTORE].concat();
        let output = harness::run("strace", folder.path(), &restore).exits(1);
        let problem = match is_replaced {
            true => "animal-store.db was written, but its folder could not be synced",
            false => "cannot restore animal-store.db: Input/output error",
        };
        assert!(output.stderr.contains(problem), "{when}: {output:?}");
        for part in [
            KEPT,
            "the restore makes keys that were revoked since the backup valid again: 1",
        ] {
            assert_eq!(output.stdout.contains(part), is_replaced, "{output:?}");
        }
        assert_eq!(kept(folder.path()).len(), usize::from(is_replaced));
        let found = animals_served(folder.path());
        assert_eq!(
            found,
            if is_replaced { IN_BACKUP } else { IN_DATABASE },
            "{when}"
        );
    }
}

#[test]
fn a_command_that_starts_while_a_restore_replaces_the_file_does_not_remove_the_kept_one() {
    let (folder, _) = with_backup();
    let inject = "inject=rename,renameat,renameat2:delay_enter=3000000";
    let args = ["-f", "-o", "/dev/null", "-e", inject];
    let command = [PROGRAM, "restore", "monday.db", "--yes"];
    let args = [&args[..], &command].concat();
    std::thread::scope(|scope| {
        let restore = scope.spawn(|| harness::run("strace", folder.path(), &args));
        harness::eventually(
            Duration::from_secs(30),
            "the old file has a second name",
            || !kept(folder.path()).is_empty(),
        );
        let create = ["keys", "create", "--name", "a", "--plan", "free"];
        // It waits for the restore.
        harness::run(PROGRAM, folder.path(), &create).exits(0);
        restore.join().expect("the restore").exits(0);
    });
    assert_eq!(kept(folder.path()).len(), 1, "{:?}", names(folder.path()));
    let keys = harness::run(PROGRAM, folder.path(), &["keys", "list", "--json"]).exits(0);
    assert!(keys.stdout.contains("\"name\":\"a\""), "{keys:?}");
}

#[test]
fn a_restore_on_a_disk_that_is_full_from_any_write_on_loses_nothing() {
    let (original, _) = with_backup();
    let full = disk_full_from_each(original.path(), &RESTORE, |folder, when| {
        let left = names(folder);
        let is_new = |name: &String| name.contains(".new-") || name.ends_with(".lock");
        assert!(!left.iter().any(is_new), "{when}: {left:?}");
        let found = animals_served(folder);
        let counts: Vec<i64> = kept(folder).iter().map(|path| animals(path)).collect();
        assert!(
            (found == IN_DATABASE && counts.is_empty())
                || (found == IN_BACKUP && counts == [IN_DATABASE]),
            "{when}: {found} animals, kept {counts:?}"
        );
    });
    assert!(full.len() == 2, "{full:?}");
}
