//! Files that cannot be used are rejected in one line and never touched; files that only look unusual are accepted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use harness::Process;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::{FREE_PORTS, PROGRAM, large_key, run};

/// The default database of `serve` and `keys`.
const FILE: &str = "animal-store.db";

/// Up to this size a file is checked whole.
const CHECKED_WHOLE: u64 = 16 * 1024 * 1024;

const PAGE: u64 = 4096;

/// A folder with a database of about this many bytes.
fn folder_with_animals(bytes: u64) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    large_key(folder.path());
    let database = open(folder.path());
    let name = "x".repeat(255);
    let count = (bytes / 260) as i64;
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                INSERT INTO pets (name, category_id, status) SELECT ?2, i, 'available' FROM n";
    database
        .pragma_update(None, "synchronous", "OFF")
        .expect("fast");
    database
        .execute(fill, rusqlite::params![count, name])
        .expect("animals");
    close(database);
    folder
}

fn open(folder: &Path) -> Connection {
    Connection::open(folder.join(FILE)).expect("a database")
}

/// Closes it with an empty log.
fn close(database: Connection) {
    database
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
        .expect("a checkpoint");
    database.close().expect("closed");
}

/// Every file in a folder with its bytes.
pub(crate) fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"));
    let content = |file: fs::DirEntry| {
        let name = file.file_name().into_string().expect("a name");
        (name, fs::read(file.path()).unwrap_or_default())
    };
    files.map(content).collect()
}

/// Checks that `serve` and `keys` reject the file with one line that contains this text, and change nothing in the folder.
#[track_caller]
fn is_rejected(folder: &Path, words: &[&str]) {
    let before = contents(folder);
    let serve = [&["serve"][..], &FREE_PORTS].concat();
    let create = ["keys", "create", "--name", "new", "--plan", "free"];
    for command in [&serve[..], &["keys", "list"], &create] {
        let line = run(folder, &[], command).fails_with(1);
        for word in words {
            assert!(line.contains(word), "{command:?}: no {word} in {line:?}");
        }
        assert!(line.contains(FILE), "{line}");
        let after = contents(folder);
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>(),
            "{command:?}"
        );
        assert!(before == after, "{command:?} changed a file");
    }
}

#[test]
fn a_text_file_is_rejected_and_not_touched() {
    let folder = TempDir::new().expect("a folder");
    fs::write(
        folder.path().join(FILE),
        "To whom it may concern\n".repeat(100),
    )
    .expect("a file");
    is_rejected(
        folder.path(),
        &["not a SQLite database", "--database sqlite:PATH"],
    );
    fs::write(folder.path().join(FILE), "x").expect("a file");
    is_rejected(
        folder.path(),
        &["not a SQLite database", "--database sqlite:PATH"],
    );
}

#[test]
fn a_folder_is_rejected() {
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join(FILE)).expect("a folder");
    is_rejected(folder.path(), &["it is a folder"]);
}

#[test]
fn a_socket_is_rejected_and_not_taken_for_an_empty_database() {
    let folder = TempDir::new().expect("a folder");
    UnixListener::bind(folder.path().join(FILE)).expect("a socket");
    is_rejected(
        folder.path(),
        &["it is not a regular file: specify another one"],
    );
}

#[test]
fn a_file_in_a_folder_that_does_not_exist_is_rejected() {
    let folder = TempDir::new().expect("a folder");
    let args = ["serve", "--database", "sqlite:not/there.db"];
    let line = run(folder.path(), &[], &[&args[..], &FREE_PORTS].concat()).fails_with(1);
    assert!(line.contains("cannot open not/there.db"), "{line}");
    assert!(contents(folder.path()).is_empty());
}

#[test]
fn a_database_url_in_the_syntax_of_other_programs_creates_no_file() {
    let folder = TempDir::new().expect("a folder");
    for url in ["sqlite://x.db", "sqlite::memory:", "sqlite:x.db?mode=rwc"] {
        for command in ["serve", "migrate"] {
            let line = run(folder.path(), &[], &[command, "--database", url]).fails_with(2);
            assert!(line.contains("sqlite:x.db"), "{url}: {line}");
        }
    }
    assert!(contents(folder.path()).is_empty());
}

#[test]
fn a_command_that_needs_a_database_does_not_create_it() {
    let folder = TempDir::new().expect("a folder");
    for args in [
        &["keys", "list"][..],
        &["keys", "show", "1"],
        &["keys", "usage"],
        &["keys", "revoke", "1"],
        &["keys", "create", "--name", "me", "--plan", "free"],
        &["orders", "list"],
        &["orders", "place", "--pet", "1"],
        &["pets", "set-status", "1", "sold"],
    ] {
        let line = run(folder.path(), &[], args).fails_with(1);
        assert_eq!(
            line,
            "animal-store: there is no database at animal-store.db: run `animal-store migrate --database sqlite:animal-store.db`, or start the server, to create it"
        );
    }
    assert!(contents(folder.path()).is_empty());
    let made = run(folder.path(), &[], &["migrate"]).exits(0);
    assert!(
        made.stdout
            .starts_with("created animal-store.db with format ")
    );
    run(folder.path(), &[], &["keys", "list"]).exits(0);
}

#[test]
fn a_database_of_another_program_is_rejected_and_not_touched() {
    for pragma in [
        "journal_mode = DELETE",
        "journal_mode = WAL",
        "application_id = 77",
        "user_version = 1",
    ] {
        let folder = TempDir::new().expect("a folder");
        let database = open(folder.path());
        let table =
            format!("PRAGMA {pragma}; CREATE TABLE pets (id INTEGER PRIMARY KEY, name TEXT)");
        database.execute_batch(&table).expect("a table");
        database.close().expect("closed");
        is_rejected(
            folder.path(),
            &["another program", "--database sqlite:PATH"],
        );
    }
}

#[test]
fn a_file_of_a_newer_format_is_rejected_and_not_touched() {
    let folder = folder_with_animals(PAGE);
    let database = open(folder.path());
    database
        .pragma_update(None, "user_version", 99)
        .expect("a version");
    close(database);
    is_rejected(folder.path(), &["format 99", "use a newer animal-store"]);
}

#[test]
fn a_file_with_junk_in_its_pages_is_rejected_and_not_touched() {
    let folder = folder_with_animals(40 * PAGE);
    let path = folder.path().join(FILE);
    let whole = fs::read(&path).expect("a file");
    let pages = whole.len() as u64 / PAGE;
    for first in [1, 4, pages / 2, pages - 2] {
        fs::write(&path, &whole).expect("a file");
        let file = fs::File::options().write(true).open(&path).expect("a file");
        file.write_all_at(&[0xa5; 2 * PAGE as usize], first * PAGE)
            .expect("junk");
        is_rejected(folder.path(), &["is damaged", "restore it from a backup"]);
    }
}

#[test]
fn a_truncated_file_is_rejected_and_not_touched_however_large_it_is() {
    for bytes in [40 * PAGE, CHECKED_WHOLE + 1_000 * PAGE] {
        let folder = folder_with_animals(bytes);
        let path = folder.path().join(FILE);
        let file = fs::File::options().write(true).open(&path).expect("a file");
        let length = file.metadata().expect("a length").len();
        for less in [PAGE, 3 * PAGE + 100] {
            assert_eq!(length - less > CHECKED_WHOLE, bytes > CHECKED_WHOLE);
            file.set_len(length - less).expect("shorter");
            is_rejected(folder.path(), &["is damaged", "restore it from a backup"]);
        }
    }
}

#[test]
fn a_large_file_that_is_intact_is_accepted() {
    let folder = folder_with_animals(CHECKED_WHOLE + 1_000 * PAGE);
    let key = large_key(folder.path());
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    let list = process.client(Some(&key)).get("/v1/pets?limit=2");
    assert_eq!(list.ids(), [1, 2]);
}

#[test]
fn an_empty_file_counts_as_new() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join(FILE), "").expect("a file");
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    assert!(
        process.startup_message.contains("First API key"),
        "{}",
        process.startup_message
    );
}

#[test]
fn the_log_that_kill_9_leaves_next_to_a_file_is_recovered() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    process.client(Some(&key)).create_many(20);
    process.kill();
    let log = fs::metadata(folder.path().join(format!("{FILE}-wal"))).expect("a log");
    assert!(log.len() > 0);
    // A command on the keys recovers it as well as a server does, and loses nothing for the server.
    run(folder.path(), &[], &["keys", "list"]).exits(0);
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    let list = process.client(Some(&key)).get("/v1/pets");
    assert_eq!(list.ids(), (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_server_that_shuts_down_gracefully_leaves_one_file() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    process.client(Some(&key)).create_many(3);
    process.signal("TERM");
    assert_eq!(
        process.ends_within(std::time::Duration::from_secs(5)),
        Some(0)
    );
    assert_eq!(
        contents(folder.path()).into_keys().collect::<Vec<_>>(),
        [FILE]
    );
}

#[test]
fn a_write_ahead_log_whose_database_is_gone_is_not_replayed_into_a_new_one() {
    for (left, state) in [(None, "missing"), (Some(""), "empty")] {
        let folder = TempDir::new().expect("a folder");
        let key = large_key(folder.path());
        let mut server = Process::serve(PROGRAM, folder.path(), &[]);
        server.client(Some(&key)).create_many(3);
        server.kill();
        let file = folder.path().join(FILE);
        fs::rename(&file, folder.path().join("moved")).expect("moved");
        if let Some(content) = left {
            fs::write(&file, content).expect("a file");
        }
        let message = format!(
            "{FILE} is {state}, but {FILE}-wal is there: put {FILE} back, or remove {FILE}-wal (its commits would be lost)"
        );
        is_rejected(folder.path(), &[&message]);
        run(folder.path(), &[], &["migrate"]).fails_with(1);

        // Both actions that the message names help.
        fs::rename(folder.path().join("moved"), &file).expect("moved back");
        let server = Process::serve(PROGRAM, folder.path(), &[]);
        assert_eq!(server.client(Some(&key)).get("/v1/pets").json()[2]["id"], 3);
        drop(server);
        fs::remove_file(&file).expect("removed");
        fs::remove_file(folder.path().join(format!("{FILE}-wal"))).expect("removed");
        let server = Process::serve(PROGRAM, folder.path(), &[]);
        assert!(server.startup_message.contains("First API key"));
    }
}
