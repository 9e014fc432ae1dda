//! A copy that fails or is killed leaves an empty target.

use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{Postgres, eventually, run};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{FROM, command, copy, fill};
use crate::PROGRAM;

#[test]
fn an_interrupted_copy_leaves_an_empty_target_and_the_next_one_succeeds() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    fill(folder.path(), 100_000);
    for to in [postgres.url(), "sqlite:new.db".to_owned()] {
        let has_begun = || match to.starts_with("sqlite:") {
            true => {
                let log = folder.path().join("new.db-wal").metadata();
                log.is_ok_and(|log| log.len() > 1_000_000)
            }
            false => {
                let state = "select count(*) from pg_stat_activity where query like 'COPY pets%' and state = 'active'";
                postgres.psql("postgres", state) == "1"
            }
        };
        let mut child = Command::new(PROGRAM)
            .args(["copy", "--from", FROM, "--to", &to])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("it runs");
        eventually(Duration::from_secs(30), "it has begun", has_begun);
        child.kill().expect("a child");
        child.wait().expect("an end");
        if !to.starts_with("sqlite:") {
            eventually(Duration::from_secs(10), "PostgreSQL has noticed", || {
                !has_begun()
            });
        }
        assert_eq!(command(folder.path(), &to, "keys list --json"), "[]");
        copy(folder.path(), FROM, &to, &[]).exits(0);
    }
    // A row that the target refuses.
    let file = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    file.execute_batch("UPDATE pets SET name = 'a' || char(0) || 'b' WHERE id = 77777")
        .expect("a row");
    drop(file);
    let other = postgres.create_database("other");
    let line = copy(folder.path(), FROM, &other, &[]).refuses(1);
    assert!(
        line.contains("--to: ") && line.contains("PostgreSQL"),
        "{line}"
    );
    assert_eq!(command(folder.path(), &other, "keys list --json"), "[]");
}

#[test]
fn a_full_disk_leaves_an_empty_target() {
    let folder = TempDir::new().expect("a folder");
    fill(folder.path(), 100_000);
    std::fs::create_dir(folder.path().join("small")).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=2m none small && {PROGRAM} copy --from {FROM} --to sqlite:small/a.db; \
         code=$?; {PROGRAM} keys list --json --database sqlite:small/a.db && exit $code"
    );
    let output = run("unshare", folder.path(), &["-rm", "sh", "-c", &script]).exits(1);
    assert_eq!(output.stdout, "[]\n", "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    assert!(
        output.stderr.contains("--to: ") && output.stderr.contains("disk is full"),
        "{output:?}"
    );
}
