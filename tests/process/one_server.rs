//! One server for each embedded file: a second one would let a key use its limits twice.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use harness::Process;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use crate::rejection::contents;
use crate::{FREE_PORTS, PROGRAM, folder, large_key, logged, run};

const FILE: &str = "animal-store.db";

/// Checks that a second server on the file of this name fails with one line.
#[track_caller]
fn second_is_rejected(folder: &Path, name: &str) -> String {
    let database = format!("sqlite:{name}");
    let serve = [&["serve", "--database", &database][..], &FREE_PORTS].concat();
    run(folder, &[], &serve).fails_with(1)
}

#[test]
fn a_second_server_is_rejected_with_the_name_of_the_file_and_of_the_process_that_has_it() {
    let folder = folder();
    let first = Process::serve(PROGRAM, folder.path(), &[]);
    let elsewhere = crate::folder();
    symlink(folder.path().join(FILE), elsewhere.path().join("link.db")).expect("a link");
    symlink(folder.path(), elsewhere.path().join("folder")).expect("a link");
    let absolute = folder.path().join(FILE).display().to_string();
    let names = [FILE, "./animal-store.db", &absolute];
    let others = ["link.db", "folder/animal-store.db"];
    let here = names.map(|name| (folder.path(), name));
    let there = others.map(|name| (elsewhere.path(), name));
    for (place, name) in here.into_iter().chain(there) {
        assert_eq!(
            second_is_rejected(place, name),
            format!(
                "animal-store: {name} is in use by process {}: stop it first, or choose another file with \
                 --database sqlite:PATH",
                first.id()
            )
        );
    }
    // There is no file next to a link, and the lock has the mode of the data.
    assert_eq!(contents(elsewhere.path()).len(), 2);
    let lock = fs::metadata(folder.path().join(format!("{FILE}.lock"))).expect("a lock");
    assert_eq!(lock.permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_lock_ends_with_its_process_however_that_ends() {
    let folder = folder();
    let key = large_key(folder.path());
    for number in 1..=3 {
        let mut server = Process::serve(PROGRAM, folder.path(), &[]);
        let made = server
            .client(Some(&key))
            .create(&json!({"name": "Rex", "categoryId": 1}));
        assert_eq!(made.json()["id"], number, "{made}");
        let line = second_is_rejected(folder.path(), FILE);
        let process = format!("process {}:", server.id());
        assert!(line.contains(&process), "{line}");
        server.kill();
    }
    // What another program left there is not overwritten.
    let lock = folder.path().join(format!("{FILE}.lock"));
    fs::write(&lock, "my notes\n").expect("a file");
    let line = second_is_rejected(folder.path(), FILE);
    assert!(
        line.contains("animal-store.db.lock is not a lock file of this program"),
        "{line}"
    );
    assert_eq!(fs::read(&lock).expect("a file"), b"my notes\n");
}

#[test]
fn a_host_that_another_user_wrote_to_the_lock_file_does_not_control_the_terminal() {
    let folder = folder();
    let path = folder.path().join(format!("{FILE}.lock"));
    fs::write(&path, "1 a\u{1b}[2J\u{202e} server\n").expect("a file");
    let lock = fs::File::open(&path).expect("a file");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    let line = second_is_rejected(folder.path(), FILE);
    let holder = r"in use by process 1 on a\u{1b}[2J\u{202e}: stop it first";
    assert!(line.contains(holder), "{line:?}");
}

#[test]
fn a_full_disk_leaves_no_lock_behind() {
    let folder = folder();
    large_key(folder.path());
    let lock = folder.path().join("animal-store.db.lock");
    let inject = "inject=write:error=ENOSPC";
    let path = lock.to_str().expect("text");
    let args = ["-f", "-P", path, "-o", "/dev/null", "-e", inject];
    let serve = [PROGRAM, "serve"];
    let args = [&args[..], &serve, &FREE_PORTS].concat();
    let line = harness::run("strace", folder.path(), &args).fails_with(1);
    assert!(
        line.contains("cannot lock it: No space left on device"),
        "{line}"
    );
    assert!(!lock.exists());
}

#[test]
fn a_file_with_a_second_name_is_not_served_but_what_a_crash_left_behind_is_cleaned_up() {
    let folder = folder();
    large_key(folder.path());
    let file = folder.path().join(FILE);
    let unfinished = folder.path().join(format!("{FILE}.new-0123456789abcdef"));
    fs::hard_link(&file, &unfinished).expect("a name");
    // And the copy that a restore left behind when it was killed while it asked for confirmation.
    let copy = folder.path().join(format!("{FILE}.new-fedcba9876543210"));
    fs::write(&copy, "a backup").expect("a file");
    let mut server = Process::serve(PROGRAM, folder.path(), &[]);
    assert!(!unfinished.exists() && !copy.exists());
    server.kill();

    fs::hard_link(&file, folder.path().join("second.db")).expect("a name");
    for name in [FILE, "second.db"] {
        let line = second_is_rejected(folder.path(), name);
        assert!(line.contains("has another name (a hard link)"), "{line}");
    }
}

#[test]
fn a_command_reports_the_second_name_of_a_file_and_not_the_running_server() {
    let folder = folder();
    large_key(folder.path());
    let _server = Process::serve(PROGRAM, folder.path(), &[]);
    let second = folder.path().join("second.db");
    fs::hard_link(folder.path().join(FILE), &second).expect("a name");
    let revoke = ["keys", "revoke", "1", "--database"];
    for name in [FILE, "second.db"] {
        let database = format!("sqlite:{name}");
        let line = run(folder.path(), &[], &[&revoke[..], &[&database]].concat()).fails_with(1);
        let wanted = format!("animal-store: {name} has another name (a hard link)");
        assert!(line.starts_with(&wanted), "{line}");
    }
    fs::remove_file(&second).expect("removed");
    run(folder.path(), &[], &revoke[..3]).exits(0);
}

#[test]
fn a_file_that_is_mounted_without_its_folder_is_not_used() {
    let folder = folder();
    large_key(folder.path());
    let _server = Process::serve(PROGRAM, folder.path(), &[]);
    fs::create_dir(folder.path().join("other")).expect("a folder");
    fs::write(folder.path().join("other").join(FILE), "").expect("a file");
    let serve = format!("serve {}", FREE_PORTS.join(" "));
    for command in ["keys list", "pets export -", "pets import a.csv", &serve] {
        let mount = format!(
            "mount --bind {FILE} other/{FILE} && cd other && printf 'name,categoryId\\nRex,1\\n' >a.csv"
        );
        let script = format!("{mount} && exec {PROGRAM} {command}");
        let line = harness::run("unshare", folder.path(), &["-m", "sh", "-c", &script]);
        let line = line.fails_with(1);
        assert!(
            line.contains("is mounted without its folder"),
            "{command}: {line}"
        );
    }
}

#[test]
fn nothing_is_read_by_a_second_name_that_has_no_log_next_to_it_except_a_backup() {
    let folder = folder();
    let key = large_key(folder.path());
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    server.client(Some(&key)).create_many(1);
    run(folder.path(), &[], &["backup", "backup.db"]).exits(0);
    for (name, second) in [(FILE, "second.db"), ("backup.db", "snapshot.db")] {
        fs::hard_link(folder.path().join(name), folder.path().join(second)).expect("a name");
    }
    for (args, is_backup) in [
        ("pets list --database sqlite:", false),
        ("pets export - --database sqlite:", false),
        ("backup new.db --force --database sqlite:", false),
        ("restore --yes --database sqlite:restored.db ", true),
        ("copy --to sqlite:copied.db --from sqlite:", true),
    ] {
        let args = |name: &str| format!("{args}{name}");
        let on = |args: String| run(folder.path(), &[], &args.split(' ').collect::<Vec<_>>());
        let line = on(args("second.db")).fails_with(1);
        let wanted = "second.db has another name (a hard link)";
        assert!(line.contains(wanted), "{line}");
        on(args("snapshot.db")).exits(0);
        if !is_backup {
            on(args(FILE)).exits(0);
        }
    }
    // The second name that an interrupted restore has left behind, of a database in WAL mode.
    let restored = ["--database", "sqlite:restored.db"];
    let on = |args: &[&str]| run(folder.path(), &[], &[args, &restored].concat());
    on(&["keys", "revoke", "1"]).exits(0);
    let kept = folder.path().join("restored.db.before-restore-1");
    fs::hard_link(folder.path().join("restored.db"), kept).expect("a name");
    on(&["pets", "list"]).exits(0);
}

#[test]
fn the_other_commands_work_next_to_a_server() {
    let folder = folder();
    let key = large_key(folder.path());
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    server.client(Some(&key)).create_many(1);
    for args in [
        "migrate",
        "keys create --name b --plan free",
        "keys list",
        "keys show 2",
        "keys usage",
        "keys set-plan 2 pro",
        "keys unban 2",
        "orders place --pet 1",
        "orders list",
        "orders cancel 1",
        "pets set-status 1 sold",
        "keys revoke 2",
    ] {
        let args: Vec<_> = args.split(' ').collect();
        run(folder.path(), &[], &args).exits(0);
    }
}

#[test]
fn a_command_waits_for_another_one_that_creates_the_database_but_not_for_a_server() {
    for _ in 0..5 {
        let folder = folder();
        std::thread::scope(|scope| {
            let migrate = || run(folder.path(), &[], &["migrate"]).exits(0);
            let migrations = [(); 3].map(|()| scope.spawn(migrate));
            let made = migrations.map(|it| it.join().expect("it is made").stdout);
            let first = made.iter().filter(|made| made.starts_with("created"));
            assert_eq!(first.count(), 1, "{made:?}");
        });
    }
    let folder = folder();
    let path = folder.path().join(format!("{FILE}.lock"));
    let name = rustix::system::uname();
    let holder = format!(
        "{} {}",
        std::process::id(),
        name.nodename().to_string_lossy()
    );
    for (kind, waits) in [(" command", true), ("", false)] {
        fs::write(&path, format!("{holder}{kind}\n")).expect("a file");
        let lock = fs::File::open(&path).expect("a file");
        flock(&lock, FlockOperation::LockExclusive).expect("a lock");
        std::thread::scope(|scope| {
            let migrate = scope.spawn(|| run(folder.path(), &[], &["migrate"]));
            if waits {
                std::thread::sleep(Duration::from_secs(3));
                fs::remove_file(&path).expect("removed");
                flock(&lock, FlockOperation::Unlock).expect("no lock");
                let output = migrate.join().expect("an end").exits(0);
                assert!(output.stderr.contains("waiting up to 30 s"), "{output:?}");
                fs::remove_file(folder.path().join(FILE)).expect("removed");
            } else {
                let line = migrate.join().expect("an end").fails_with(1);
                assert!(line.contains("stop it first"), "{line}");
            }
        });
    }
}

#[test]
fn of_two_servers_that_start_together_on_a_new_file_one_serves_it_and_shows_a_first_key() {
    for _ in 0..5 {
        let folder = folder();
        let starting = std::thread::scope(|scope| {
            let start = || Process::serve(PROGRAM, folder.path(), &[]);
            [scope.spawn(start), scope.spawn(start)].map(|server| server.join())
        });
        let (server, rejected) = match starting {
            [Ok(server), Err(rejected)] | [Err(rejected), Ok(server)] => (server, rejected),
            [Ok(_), Ok(_)] => panic!("both serve"),
            [Err(_), Err(_)] => panic!("none serves"),
        };
        assert!(
            server.startup_message.contains("First API key"),
            "{}",
            server.startup_message
        );
        let why = rejected.downcast_ref::<String>().expect("a text");
        let process = format!("is in use by process {}", server.id());
        assert!(why.contains(&process), "{why}");
    }
}

#[test]
fn a_server_whose_file_is_moved_or_removed_acknowledges_nothing_more_and_exits_1() {
    for suffix in ["", "-wal", "-shm", ".lock"] {
        for (moves, idle) in [(false, false), (true, false), (false, true)] {
            let folder = folder();
            let key = large_key(folder.path());
            let mut server = Process::serve(PROGRAM, folder.path(), &[]);
            let client = server.client(Some(&key));
            client.create_many(1);
            let mut connection = client.connect();
            let name = format!("{FILE}{suffix}");
            let file = folder.path().join(&name);
            match moves {
                true => fs::rename(&file, folder.path().join("moved")).expect("moved"),
                false => fs::remove_file(&file).expect("removed"),
            }
            if !idle {
                let made = client
                    .request("POST", "/v1/pets")
                    .json(&json!({"name": "Rex", "categoryId": 1}))
                    .try_send_on(&mut connection);
                // The server may have exited by then. If only a lock file is gone, the data is in place, and a creation may succeed.
                let is_lock = ["-shm", ".lock"].contains(&suffix);
                assert!(
                    made.map_or(true, |made| made.status == 503 || is_lock),
                    "{name}"
                );
            }
            let log = logged(&server, &["ERROR", &name, "moved or removed"]);
            let code = server.ends_within(Duration::from_secs(5));
            assert_eq!(code, Some(1), "{name} {moves} {idle}: {log}");
        }
    }
}

#[test]
fn a_server_that_lost_its_lock_leaves_the_lock_of_the_next_one_alone() {
    let folder = folder();
    let mut first = Process::serve(PROGRAM, folder.path(), &[]);
    first.signal("STOP");
    fs::remove_file(folder.path().join(format!("{FILE}.lock"))).expect("removed");
    let second = Process::serve(PROGRAM, folder.path(), &[]);
    first.signal("CONT");
    assert_eq!(first.ends_within(Duration::from_secs(5)), Some(1));
    let line = second_is_rejected(folder.path(), FILE);
    let process = format!("process {}:", second.id());
    assert!(line.contains(&process), "{line}");
}

#[test]
fn a_command_reads_the_latest_data_by_any_name_of_the_file() {
    let folder = folder();
    let _server = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    large_key(folder.path());
    let elsewhere = crate::folder();
    symlink(folder.path().join(FILE), elsewhere.path().join("link.db")).expect("a link");
    let list = ["keys", "list", "--database", "sqlite:link.db"];
    let listed = run(elsewhere.path(), &[], &list).exits(0);
    assert_eq!(listed.stdout.lines().count(), 2, "{listed:#?}");
}
