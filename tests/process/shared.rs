//! A database that several users write, as members of its group.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::time::{Duration, Instant};

use harness::{Output, Process, eventually};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::import::{DATABASE, count};
use crate::permission::allow;
use crate::{FREE_PORTS, PROGRAM, folder, large_key, run};

/// The owner of the database, another user, and the group of both.
const OWNER: u32 = 12_345;
const OTHER: u32 = 12_346;
const GROUP: u32 = 23_456;

/// A folder with a database of this mode, and a file of three animals.
fn with_database(mode: u32) -> (TempDir, String) {
    let folder = folder();
    let key = large_key(folder.path());
    let line = "{\"name\":\"Rex\",\"categoryId\":1}\n";
    fs::write(folder.path().join("a.ndjson"), line.repeat(3)).expect("a file");
    for name in ["", DATABASE, "a.ndjson"] {
        let path = folder.path().join(name);
        chown(&path, Some(OWNER), Some(GROUP)).expect("tests run as root");
    }
    allow(folder.path(), 0o770);
    allow(&folder.path().join("a.ndjson"), 0o640);
    allow(&folder.path().join(DATABASE), mode);
    (folder, key)
}

/// The arguments of `setpriv` to run the program as this user. The primary group has the same ID, and `group` is a supplementary one.
fn program_as(user: u32, group: u32) -> [String; 4] {
    [
        format!("--reuid={user}"),
        format!("--regid={user}"),
        format!("--groups={group}"),
        PROGRAM.into(),
    ]
}

fn serve_as(user: u32, group: u32, folder: &TempDir) -> Process {
    let program = program_as(user, group);
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let args = [&program[..], &["serve"], &FREE_PORTS].concat();
    Process::start("setpriv", folder.path(), &args, &[])
}

/// Imports the animals as this user, with a fault at each sync.
fn import_as(user: u32, folder: &TempDir, fault: &str) -> Output {
    let inject = format!("inject=fsync,fdatasync:{fault}");
    let program = program_as(user, GROUP);
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let strace = ["-f", "-o", "/dev/null", "-e", &inject, "setpriv"];
    let import = ["pets", "import", "a.ndjson"];
    let args = [&strace[..], &program, &import].concat();
    harness::run("strace", folder.path(), &args)
}

#[test]
fn those_who_may_write_the_database_may_use_its_lock_files_and_nobody_else() {
    for (mode, wanted) in [
        (0o600, 0o600),
        (0o640, 0o600),
        (0o660, 0o660),
        (0o664, 0o660),
        (0o770, 0o660),
        (0o666, 0o666),
    ] {
        let (folder, _) = with_database(mode);
        let access = |end: &str| {
            let path = folder.path().join(format!("{DATABASE}{end}"));
            let file = fs::metadata(path).expect("a file");
            (file.uid(), file.gid(), file.mode() & 0o777)
        };
        // Root gives them to the owner of the database. An owner who is not a member of the group cannot give the group access to them.
        let alone = match wanted {
            0o666 => (OWNER, OWNER, 0o666),
            _ => (OWNER, OWNER, 0o600),
        };
        for (user, group, wanted) in [
            (0, GROUP, (OWNER, GROUP, wanted)),
            (OWNER, GROUP, (OWNER, GROUP, wanted)),
            (OWNER, OWNER, alone),
        ] {
            let server = serve_as(user, group, &folder);
            assert_eq!(access(".lock"), wanted, "{mode:o}");
            drop(server);
            fs::remove_file(folder.path().join("animal-store.db.lock")).expect("a lock");
        }
        let other = Connection::open(folder.path().join(DATABASE)).expect("a database");
        other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        let import = folder.path().join("animal-store.db.import");
        std::thread::scope(|scope| {
            let imported = scope.spawn(|| run(folder.path(), &[], &["pets", "import", "a.ndjson"]));
            eventually(Duration::from_secs(5), "it waits", || {
                fs::metadata(&import).is_ok_and(|file| file.len() > 0)
            });
            assert_eq!(access(".import"), (OWNER, GROUP, wanted), "{mode:o}");
            other.execute_batch("COMMIT").expect("no lock");
            imported.join().expect("an end").exits(0);
        });
    }
}

#[test]
fn creations_wait_for_an_import_by_another_user_and_one_that_was_killed_blocks_nobody() {
    let (folder, key) = with_database(0o660);
    // The setgid bit: new files get the group of the folder. Otherwise another user could not open those of SQLite.
    allow(folder.path(), 0o2770);
    let server = serve_as(OTHER, GROUP, &folder);
    let lock = fs::metadata(folder.path().join("animal-store.db.lock")).expect("a lock");
    assert_eq!((lock.uid(), lock.gid()), (OTHER, GROUP));
    let other = Connection::open(folder.path().join(DATABASE)).expect("a database");
    other.busy_timeout(Duration::ZERO).expect("no timeout");
    std::thread::scope(|scope| {
        // Its commit takes longer than a creation waits for any other process.
        let import = scope.spawn(|| import_as(OWNER, &folder, "delay_enter=5000000"));
        eventually(Duration::from_secs(20), "it has the lock", || {
            other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
        });
        let began = Instant::now();
        let created = server
            .client(Some(&key))
            .create(&json!({"name": "Rex", "categoryId": 1}));
        assert_eq!(created.status, 201, "{created}");
        let took = began.elapsed();
        assert!(took > Duration::from_secs(2), "{took:?}");
        import.join().expect("an end").exits(0);
    });
    import_as(OWNER, &folder, "signal=SIGKILL");
    assert!(folder.path().join("animal-store.db.import").exists());
    import_as(OTHER, &folder, "delay_enter=0").exits(0);
    assert_eq!(count(folder.path()), 7);
}
