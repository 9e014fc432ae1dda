//! What cannot be copied, and where nothing is copied to.

use harness::Postgres;
use tempfile::TempDir;

use super::{FROM, command, copy, dump_server};

#[test]
fn a_target_that_has_data_the_source_itself_and_what_is_no_database_are_refused() {
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
    for (from, to, code, part) in [
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
            "--from: there is no database at none.db",
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
    ] {
        let line = copy(folder.path(), from, to, &[]).refuses(code);
        assert!(line.contains(part), "{from} {to}: {line}");
    }
    assert_eq!(dump_server(&postgres, "used"), before);
    // Nothing was made of a source that could not be read.
    assert!(!folder.path().join("new.db").exists());
    let secret = ["--database-password-file", "text.db"];
    let line = copy(folder.path(), FROM, "sqlite:new.db", &secret).refuses(2);
    assert!(line.contains("--database-password-file requires"), "{line}");
}
