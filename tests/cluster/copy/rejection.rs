//! What cannot be copied, and where nothing is copied to.

use std::time::Duration;

use harness::{Postgres, eventually};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{FROM, command, copy, dump_server};

#[test]
fn a_target_that_has_data_the_source_itself_and_what_is_not_a_database_are_rejected() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    command(folder.path(), FROM, "migrate");
    command(folder.path(), FROM, "keys create --name a --plan free");
    let (url, used) = (postgres.url(), postgres.create_database("used"));
    command(folder.path(), &used, "migrate");
    command(folder.path(), &used, "keys create --name b --plan free");
    command(folder.path(), "sqlite:used.db", "migrate");
    command(
        folder.path(),
        "sqlite:used.db",
        "keys create --name b --plan free",
    );
    std::fs::write(folder.path().join("text.db"), "text".repeat(1_000)).expect("a file");
    std::os::unix::fs::symlink("animal-store.db", folder.path().join("link.db")).expect("a link");
    let before = dump_server(&postgres, "used");
    let local = used.replace("127.0.0.1", "localhost");
    for (from, to, code, part) in [
        (
            &*used,
            &*local,
            2,
            "animal-store: --from and --to name the same database",
        ),
        (
            FROM,
            &*used,
            1,
            "has rows in api_keys: copy needs a database without animals, orders and keys",
        ),
        (FROM, "sqlite:used.db", 1, "used.db has rows in api_keys"),
        (FROM, FROM, 2, "--from and --to name the same database"),
        (
            FROM,
            "sqlite:link.db",
            2,
            "--from and --to name the same database",
        ),
        (&used, &used, 2, "--from and --to name the same database"),
        (
            "sqlite:text.db",
            &url,
            1,
            "--from: text.db is not a SQLite database",
        ),
        (
            "sqlite:none.db",
            &url,
            1,
            "--from: there is no database at none.db: specify one that exists",
        ),
        (
            &url,
            "sqlite:new.db",
            1,
            "--from: there is no database at postgres://",
        ),
        (
            FROM,
            "sqlite:text.db",
            1,
            "--to: text.db is not a SQLite database",
        ),
        (
            FROM,
            "sqlite:no/where.db",
            1,
            "--to: cannot open no/where.db: its folder does not exist",
        ),
        (
            FROM,
            "postgres://animals@127.0.0.1:1/x",
            1,
            "--to: PostgreSQL at 127.0.0.1",
        ),
        (FROM, "mysql:x", 2, "--to"),
        (
            "sqlite:text.db",
            &url,
            1,
            "choose another file with --from sqlite:PATH",
        ),
        (
            FROM,
            "sqlite:text.db",
            1,
            "choose another file with --to sqlite:PATH",
        ),
        (
            FROM,
            "postgres://me@127.0.0.1:1/x?sslmode=verify-ca",
            2,
            "--to: sslmode=verify-ca requires",
        ),
    ] {
        let line = copy(folder.path(), from, to, &[]).fails_with(code);
        assert!(line.contains(part), "{from} {to}: {line}");
        assert!(!line.contains("--database"), "{from} {to}: {line}");
    }
    assert_eq!(dump_server(&postgres, "used"), before);
    // No target was created for a source that could not be read.
    assert!(!folder.path().join("new.db").exists());
    let secret = ["--database-password-file", "text.db"];
    let line = copy(folder.path(), FROM, "sqlite:new.db", &secret).fails_with(2);
    assert!(line.contains("--database-password-file requires"), "{line}");
}

#[test]
fn a_target_of_an_older_format_is_rejected_and_not_migrated() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let (url, file) = (postgres.url(), "sqlite:older.db");
    for database in [FROM, &url, file] {
        command(folder.path(), database, "migrate");
    }
    let format = "select format from animal_store_format";
    let known: i64 = postgres.psql("postgres", format).parse().expect("a format");
    let older = known - 1;
    let change = format!("update animal_store_format set format = {older}");
    postgres.psql("postgres", &change);
    let embedded = Connection::open(folder.path().join("older.db")).expect("a database");
    let changed = embedded.pragma_update(None, "user_version", older);
    changed.expect("a format");
    let reason = format!(" has format {older}, and this version needs format {known}: run ");
    for (to, command) in [
        (&*url, "`animal-store migrate` with its URL as --database"),
        (file, "`animal-store migrate --database sqlite:older.db`"),
    ] {
        let line = copy(folder.path(), FROM, to, &[]).fails_with(1);
        assert!(line.starts_with("animal-store: --to: "), "{line}");
        assert!(line.ends_with(&format!("{reason}{command}")), "{line}");
    }
    assert_eq!(postgres.psql("postgres", format), older.to_string());
    let kept = embedded.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    assert_eq!(kept.expect("a format"), older);
}

#[test]
fn a_database_with_the_id_of_the_source_is_another_one_and_one_that_is_written_is_named_as_that() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let (from, to) = (postgres.url(), postgres.create_database("twin"));
    for database in [&from, &to] {
        command(folder.path(), database, "migrate");
    }
    let id = postgres.psql("postgres", "select id from deployment");
    postgres.psql("twin", &format!("update deployment set id = '{id}'"));
    command(folder.path(), &from, "keys create --name a --plan free");
    let lock = "begin; select * from counters for update; select pg_sleep(20)";
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| postgres.psql("twin", lock));
        let sleeping = "select count(*) from pg_stat_activity where query like '%pg_sleep(20)%' and state = 'active' and pid <> pg_backend_pid()";
        eventually(Duration::from_secs(10), "it is locked", || {
            postgres.psql("postgres", sleeping) == "1"
        });
        command(folder.path(), FROM, "migrate");
        let line = copy(folder.path(), FROM, &to, &[]).fails_with(1);
        assert_eq!(
            line,
            "animal-store: --to: another process is writing to it: try again when that has ended"
        );
        let end = "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(20)%' and pid <> pg_backend_pid()";
        postgres.psql("postgres", end);
        // Its end is an error.
        let _ = writing.join();
    });
    copy(folder.path(), &from, &to, &[]).exits(0);
}
