//! Commands that ask for confirmation on a terminal.

use rusqlite::Connection;

use crate::{PROGRAM, folder, large_key, run};

#[test]
fn ctrl_c_at_a_question_ends_a_command_with_one_line_and_changes_nothing() {
    let folder = folder();
    large_key(folder.path());
    crate::backup::fill(folder.path(), 1);
    run(folder.path(), &[], &["keys", "rotate", "1"]).exits(0);
    for command in ["pets remove 1", "keys rotate 1"] {
        let interrupted = format!("(sleep 2; kill -INT $$) & exec {PROGRAM} {command}");
        let (code, shown) = harness::on_terminal(folder.path(), &interrupted, &[], "");
        assert_eq!(code, Some(1), "{command}: {shown}");
        let end = "Continue? [y/N] animal-store: stopped by SIGINT: nothing was changed\n";
        assert!(shown.ends_with(end), "{command}: {shown:?}");
    }
    run(folder.path(), &[], &["pets", "show", "1"]).exits(0);

    // After the reply, too, while the change waits for the lock of another process.
    let other = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let interrupted = format!("(sleep 2; kill -INT $$) & exec {PROGRAM} pets remove 1");
    let (code, shown) = harness::on_terminal(folder.path(), &interrupted, &[], "y\n");
    other.execute_batch("COMMIT").expect("no lock");
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.ends_with("animal-store: stopped by SIGINT: the change may have been made\n"),
        "{shown:?}"
    );
    run(folder.path(), &[], &["pets", "show", "1"]).exits(0);
}

#[test]
fn an_order_that_is_placed_while_a_removal_asks_does_not_end_before_it_was_placed() {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    crate::backup::fill(folder.path(), 1);
    // In the background, the removal is stopped when it reads the reply.
    let line = format!(
        "set -m; {PROGRAM} pets remove 1 --force & \
         until grep -q 'State:.T' /proc/$!/status; do sleep 0.1; done; \
         {PROGRAM} orders place --pet 1; fg"
    );
    let (code, shown) = harness::on_terminal(folder.path(), &line, &[], "y\n");
    assert_eq!(code, Some(0), "{shown}");
    let question = "removed permanently, and its open order, if any, will be cancelled. Continue?";
    assert!(shown.contains(question), "{shown}");
    let file = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    let sql = "SELECT status, ended_at >= placed_at FROM orders";
    let ended = file.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(ended, Ok(("cancelled".to_owned(), true)), "{shown}");
}
