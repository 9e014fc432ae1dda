//! Background work delays no creation for long, commands succeed meanwhile, and a command waits for the lock of another process.

use std::path::Path;
use std::time::{Duration, Instant};

use harness::{Process, creations, eventually, figures};
use rusqlite::Connection;

use crate::{FREE_PORTS, PROGRAM, folder, large_key, run};

/// The longest wait, on a machine that may be busy. One DELETE of all takes many times that.
const LONGEST: Duration = Duration::from_secs(1);

/// How much the 99th percentile of creations during a sweep may exceed three times that without one.
const P99_SLACK: Duration = Duration::from_millis(50);

/// The minimum time for which creations are measured with nothing to sweep.
const REST: Duration = Duration::from_secs(3);

fn open(folder: &Path) -> Connection {
    let file = Connection::open(folder.join("animal-store.db")).expect("a file");
    file.busy_timeout(Duration::from_secs(10)).expect("a file");
    file
}

/// Holds the write lock for this time while something happens.
pub(crate) fn while_locked<T>(folder: &Path, time: Duration, happens: impl FnOnce() -> T) -> T {
    let file = open(folder);
    file.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(time);
            file.execute_batch("ROLLBACK").expect("no lock");
        });
        happens()
    })
}

#[test]
fn a_command_waits_for_the_lock_of_another_process_and_reports_it() {
    let folder = folder();
    large_key(folder.path());
    let said =
        "animal-store: waiting up to 30 s for the database lock, which another process holds\n";
    let quick = run(folder.path(), &[], &["keys", "set-plan", "1", "pro"]).exits(0);
    assert!(!quick.stderr.contains("waiting"), "{quick:#?}");
    // Longer than a request would wait.
    let revoked = while_locked(folder.path(), Duration::from_secs(4), || {
        run(folder.path(), &[], &["keys", "revoke", "1"])
    });
    assert_eq!(revoked.exits(0).stderr.matches(said).count(), 1);
}

#[test]
#[ignore = "long: ./test --long"]
fn a_command_waits_for_thirty_seconds_and_no_longer() {
    let folder = folder();
    large_key(folder.path());
    let revoke = ["keys", "revoke", "1"];
    let (took, rejected) = while_locked(folder.path(), Duration::from_secs(40), || {
        let began = Instant::now();
        let rejected = harness::run(PROGRAM, folder.path(), &revoke);
        (began.elapsed(), rejected)
    });
    assert!((30..35).contains(&took.as_secs()), "{took:?}");
    let last = rejected.exits(1).stderr;
    assert!(
        last.ends_with("waited too long for the database lock, which another process holds\n"),
        "{last}"
    );
}

#[test]
fn a_command_that_reads_waits_only_briefly_for_a_process_that_keeps_all_others_out() {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    let file = open(folder.path());
    let lock = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT";
    file.execute_batch(lock).expect("a lock");
    let began = Instant::now();
    let line = run(folder.path(), &[], &["keys", "list"]).fails_with(1);
    assert!(line.contains("locked"), "{line}");
    // By default, a connection waits for 5 s.
    assert!(began.elapsed() < Duration::from_secs(3));
}

/// Adds records that have expired. Returns a connection to the file.
fn with_expired_records(folder: &Path, rows: i64) -> Connection {
    let file = open(folder);
    let fill = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO idempotency SELECT 1, randomblob(32), randomblob(32), i, i FROM n"
    );
    file.execute_batch(&fill).expect("rows");
    file
}

fn records(file: &Connection) -> i64 {
    let count = "SELECT count(*) FROM idempotency";
    file.query_row(count, (), |row| row.get(0)).expect("a file")
}

#[test]
fn a_sweep_needs_no_temporary_file() {
    let folder = folder();
    large_key(folder.path());
    let file = with_expired_records(folder.path(), 2_000);
    std::fs::create_dir(folder.path().join("temporary")).expect("a folder");
    let vars = [
        ("ANIMAL_STORE_FAULT", "sweeps-at-once"),
        ("SQLITE_TMPDIR", "temporary"),
    ];
    // The server is the child, and not strace: it is the one that is killed.
    let strace = ["-D", "-f", "-qq", "-e", "trace=openat", "-o", "trace"];
    let args = [&strace[..], &[PROGRAM, "serve"], &FREE_PORTS].concat();
    let process = Process::start("strace", folder.path(), &args, &vars);
    eventually(Duration::from_secs(20), "they are swept", || {
        records(&file) == 0
    });
    drop(process);
    let trace = std::fs::read_to_string(folder.path().join("trace")).expect("a trace");
    assert!(trace.contains("animal-store.db-wal"), "{trace}");
    assert!(!trace.contains("\"temporary"), "{trace}");
}

#[test]
fn many_expired_idempotency_records_are_swept_while_creations_and_commands_continue() {
    let rows = if harness::is_long() {
        1_000_000
    } else {
        50_000
    };
    let folder = folder();
    let key = large_key(folder.path());
    let file = with_expired_records(folder.path(), rows);
    let left = || records(&file);
    assert_eq!(left(), rows);
    let warn = ["--log-level", "warn"];
    // Nothing is swept until the clock has been steady: if it were a day ahead, rows that are still needed would look just as old.
    let process = Process::serve(PROGRAM, folder.path(), &warn);
    std::thread::sleep(REST);
    assert_eq!(left(), rows, "deleted before the clock was steady");
    drop(process);
    let vars = [("ANIMAL_STORE_FAULT", "sweeps-at-once")];
    let process = Process::serve_with(PROGRAM, folder.path(), &warn, &vars);
    let client = process.client(Some(&key));
    // Commands take processor time, too: as much with nothing to sweep, and for as long.
    let measured = |goes_on: &dyn Fn() -> bool| {
        let mut commands = Vec::new();
        let took = creations(&client, || {
            while goes_on() {
                let began = Instant::now();
                let create = ["keys", "create", "--name", "x", "--plan", "free", "--json"];
                run(folder.path(), &[], &create).exits(0);
                commands.push(began.elapsed());
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        (figures(&took), commands)
    };
    let began = Instant::now();
    let (during, commands) = measured(&|| left() > 0);
    let swept = began.elapsed();
    println!(
        "{rows} rows swept in {swept:?}, {} commands, the longest {:?}",
        commands.len(),
        commands.iter().max()
    );
    let began = Instant::now();
    let (after, _) = measured(&|| left() == 0 && began.elapsed() < swept.max(REST));
    println!("median, p99 and maximum: during the sweep {during:?}, after it {after:?}");
    assert!(
        during[1] <= 3 * after[1] + P99_SLACK,
        "{during:?}, {after:?}"
    );
    assert!(during[2] <= LONGEST, "{during:?}, {after:?}");
}
