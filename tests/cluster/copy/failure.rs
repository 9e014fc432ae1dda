//! A copy that fails or is killed leaves an empty target.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::{Postgres, Process, eventually, run};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use super::{FROM, command, copy, fill};
use crate::PROGRAM;

/// Whether a copy into this database is writing rows.
fn has_begun(postgres: &Postgres, folder: &Path, to: &str) -> bool {
    if to.starts_with("sqlite:") {
        let log = folder.join("new.db-wal").metadata();
        return log.is_ok_and(|log| log.len() > 1_000_000);
    }
    let state =
        "select count(*) from pg_stat_activity where query like 'COPY pets%' and state = 'active'";
    postgres.psql("postgres", state) == "1"
}

/// Starts a copy of the embedded database, and waits until it writes.
fn start(postgres: &Postgres, folder: &Path, to: &str) -> Child {
    start_from(postgres, folder, FROM, to)
}

/// The same with this source.
fn start_from(postgres: &Postgres, folder: &Path, from: &str, to: &str) -> Child {
    let child = harness::command(PROGRAM)
        .args(["copy", "--from", from, "--to", to])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    eventually(Duration::from_secs(30), "it has begun", || {
        has_begun(postgres, folder, to)
    });
    child
}

/// A target in which each animal takes five milliseconds: when the command ends, the server still has rows to insert
/// for some seconds.
fn slow_database(postgres: &Postgres, folder: &Path) -> String {
    let url = postgres.create_database("slow");
    command(folder, &url, "migrate");
    postgres.psql(
        "slow",
        "create function wait() returns trigger language plpgsql as 'begin perform pg_sleep(0.005); return new; end';
         create trigger slow before insert on pets for each row execute function wait()",
    );
    url
}

#[test]
fn a_copy_that_a_signal_stops_says_so_leaves_nothing_and_can_be_repeated_at_once() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    fill(folder.path(), 100_000);
    let slow = slow_database(&postgres, folder.path());
    for to in [slow, postgres.url(), "sqlite:new.db".to_owned()] {
        for signal in ["INT", "TERM"] {
            let child = start(&postgres, folder.path(), &to);
            let id = child.id().to_string();
            let sent = Command::new("kill").args(["-s", signal, &id]).status();
            assert!(sent.expect("kill runs").success());
            let output = child.wait_with_output().expect("an end");
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert_eq!(
                String::from_utf8_lossy(&output.stderr),
                format!("animal-store: stopped by SIG{signal}: nothing was copied\n")
            );
            let files = std::fs::read_dir(folder.path()).expect("a folder");
            let names = files.map(|file| file.expect("a file").file_name());
            let new = |name: &OsString| name.to_string_lossy().starts_with("new.db");
            assert_eq!(names.filter(new).count(), 0);
            if !to.starts_with("sqlite:") {
                let open = "select count(*) from pg_stat_activity where application_name = 'animal-store' and xact_start is not null";
                assert_eq!(postgres.psql("postgres", open), "0");
            }
        }
        postgres.psql("slow", "drop trigger if exists slow on pets");
        copy(folder.path(), FROM, &to, &[]).exits(0);
    }
}

#[test]
fn an_interrupted_copy_leaves_an_empty_target_and_the_next_one_succeeds() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    fill(folder.path(), 100_000);
    for to in [postgres.url(), "sqlite:new.db".to_owned()] {
        let mut child = start(&postgres, folder.path(), &to);
        child.kill().expect("a child");
        child.wait().expect("an end");
        if !to.starts_with("sqlite:") {
            eventually(Duration::from_secs(10), "PostgreSQL has noticed", || {
                !has_begun(&postgres, folder.path(), &to)
            });
        }
        assert_eq!(command(folder.path(), &to, "keys list --json"), "[]");
        copy(folder.path(), FROM, &to, &[]).exits(0);
    }
    // A row that the target rejects.
    let file = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    file.execute_batch("UPDATE pets SET name = 'a' || char(0) || 'b' WHERE id = 77777")
        .expect("a row");
    drop(file);
    let other = postgres.create_database("other");
    let line = copy(folder.path(), FROM, &other, &[]).fails_with(1);
    assert!(
        line.contains("--to: ") && line.contains("PostgreSQL"),
        "{line}"
    );
    assert_eq!(command(folder.path(), &other, "keys list --json"), "[]");
}

#[test]
fn nothing_is_created_in_the_source_during_a_copy_even_by_a_node_that_is_started() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let key = fill(folder.path(), 20_000);
    let (source, slow) = (postgres.url(), slow_database(&postgres, folder.path()));
    copy(folder.path(), FROM, &source, &[]).exits(0);
    let mut copying = start_from(&postgres, folder.path(), &source, &slow);
    // It is started, but not registered.
    let node = Process::serve(PROGRAM, folder.path(), &["--database", &source]);
    let client = node.client(Some(&key));
    let rex = json!({"name": "Rex", "categoryId": 1});
    eventually(Duration::from_secs(10), "a list", || {
        client.get("/v1/pets?limit=1").status == 200
    });
    assert_eq!(client.create(&rex).status, 503);
    assert_eq!(copying.try_wait().expect("a child"), None, "it still runs");
    copying.kill().expect("a child");
    copying.wait().expect("an end");
    eventually(Duration::from_secs(20), "a creation", || {
        client.create(&rex).status == 201
    });
}

#[test]
fn a_full_disk_leaves_nothing() {
    let folder = TempDir::new().expect("a folder");
    fill(folder.path(), 100_000);
    std::fs::create_dir(folder.path().join("small")).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=2m none small && {PROGRAM} copy --from {FROM} --to sqlite:small/a.db; \
         code=$?; ls small && exit $code"
    );
    let output = run("unshare", folder.path(), &["-rm", "sh", "-c", &script]).exits(1);
    assert_eq!(output.stdout, "", "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    assert!(
        output.stderr.contains("--to: ") && output.stderr.contains("disk is full"),
        "{output:?}"
    );
}

#[test]
fn a_target_that_does_not_have_what_was_written_stays_empty() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    fill(folder.path(), 10);
    let to = postgres.create_database("changes");
    run(PROGRAM, folder.path(), &["migrate", "--database", &to]).exits(0);
    let change = "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql
                  AS $$ BEGIN new.name := 'another'; RETURN new; END $$;
                  CREATE TRIGGER change BEFORE INSERT ON pets FOR EACH ROW EXECUTE FUNCTION change()";
    postgres.psql("changes", change);
    let line = copy(folder.path(), FROM, &to, &[]).fails_with(1);
    assert!(line.contains("--to: pets has "), "{line}");
    assert_eq!(
        postgres.psql("changes", "SELECT count(*) FROM pets").trim(),
        "0"
    );
    assert_eq!(command(folder.path(), &to, "keys list --json"), "[]");
}

#[test]
fn a_copy_that_is_killed_during_a_long_statement_does_not_leave_it_running() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let url = postgres.url();
    command(folder.path(), &url, "migrate");
    let slow = "insert into pets values (1, 'Rex', 1, 'available');
                alter table pets rename to slow_pets;
                create view pets as select slow_pets.* from slow_pets, (select pg_sleep(60)) as slept";
    postgres.psql("postgres", slow);
    let mut child = harness::command(PROGRAM)
        .args(["copy", "--from", &url, "--to", "sqlite:new.db"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let running = || {
        let running = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        postgres.psql("postgres", running)
    };
    let timeout = Duration::from_secs(10);
    eventually(timeout, "it reads", || running() == "1");
    child.kill().expect("a child");
    child.wait().expect("an end");
    eventually(timeout, "PostgreSQL has noticed", || running() == "0");
}
