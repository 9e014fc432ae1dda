//! The format of a file: which commands change it, and the errors for another format than that of this version.

use std::fs;
use std::path::Path;
use std::time::Duration;

use harness::Process;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::rejection::contents;
use crate::sweep::while_locked;
use crate::{FREE_PORTS, PROGRAM, folder, large_key, run};

const FILE: &str = "animal-store.db";

/// The statements of the migrations up to format 2.
const OLDER: [&str; 2] = [
    include_str!("../../src/store/sqlite/migrations/0001_first.sql"),
    include_str!("../../src/store/sqlite/migrations/0002_orders.sql"),
];

/// Commands that only read.
const READING: [&[&str]; 4] = [
    &["keys", "list"],
    &["keys", "show", "1"],
    &["keys", "usage"],
    &["orders", "list"],
];

/// Commands that write.
const WRITING: [&[&str]; 4] = [
    &["keys", "create", "--name", "b", "--plan", "free"],
    &["keys", "revoke", "1"],
    &["pets", "set-status", "1", "available"],
    &["orders", "place", "--pet", "1"],
];

/// Creates a file of an older version, with an animal and a key in it.
fn older(folder: &Path) {
    let database = Connection::open(folder.join(FILE)).expect("a file");
    database
        .pragma_update(None, "journal_mode", "wal")
        .expect("a log");
    for script in OLDER {
        database.execute_batch(script).expect("tables");
    }
    let rows = "PRAGMA application_id = 0x416e5374; PRAGMA user_version = 2;
                INSERT INTO pets (name, category_id, status) VALUES ('Rex', 1, 'available');
                INSERT INTO api_keys (name, plan, prefix, hash, created_at)
                VALUES ('a', 'free', 'as_00000', zeroblob(32), 0)";
    database.execute_batch(rows).expect("rows");
    database.close().expect("closed");
}

/// The format that is stored in the file.
fn format(folder: &Path) -> i64 {
    let database = Connection::open(folder.join(FILE)).expect("a file");
    database
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("a format")
}

/// The format of this version.
fn current_format() -> i64 {
    let folder = folder();
    run(folder.path(), &[], &["migrate"]).exits(0);
    format(folder.path())
}

#[test]
fn commands_that_only_read_create_no_files() {
    let folder = folder();
    large_key(folder.path());
    let before = contents(folder.path());
    for args in READING {
        run(folder.path(), &[], args).exits(0);
        assert!(contents(folder.path()) == before, "{args:?}");
    }
    // Nor do they beside a server, whose log they read.
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let key = large_key(folder.path());
    server.client(Some(&key)).create_many(3);
    let names = |folder: &Path| contents(folder).into_keys().collect::<Vec<_>>();
    let before = names(folder.path());
    for args in READING {
        run(folder.path(), &[], args).exits(0);
        assert_eq!(names(folder.path()), before, "{args:?}");
    }
    let keys = run(folder.path(), &[], &["keys", "list", "--json"]).exits(0);
    let keys: Value = serde_json::from_str(&keys.stdout).expect("JSON");
    assert_eq!(keys.as_array().map(Vec::len), Some(2), "{keys}");
}

#[test]
fn an_older_file_is_migrated_by_migrate_serve_and_import_and_by_no_other_command() {
    let folder = folder();
    older(folder.path());
    let before = contents(folder.path());
    let present = current_format();
    let line = format!(
        "animal-store: animal-store.db has format 2, and this version needs format {present}: run `animal-store migrate --database sqlite:animal-store.db`"
    );
    let serve = [&["serve", "--no-migrate"][..], &FREE_PORTS].concat();
    for args in READING.into_iter().chain(WRITING).chain([&serve[..]]) {
        assert_eq!(run(folder.path(), &[], args).fails_with(1), line);
        assert!(contents(folder.path()) == before, "{args:?}");
    }
    let migrate = run(folder.path(), &[], &["migrate"]).exits(0);
    assert_eq!(
        migrate.stdout,
        format!("migrated animal-store.db from format 2 to {present}\n")
    );
    assert_eq!(migrate.stderr, "");
    assert_eq!(format(folder.path()), present);
    for args in READING.into_iter().chain(WRITING) {
        run(folder.path(), &[], args).exits(0);
    }

    let other = crate::folder();
    older(other.path());
    drop(Process::serve(PROGRAM, other.path(), &[]));
    assert_eq!(format(other.path()), present);

    let other = crate::folder();
    older(other.path());
    std::fs::write(
        other.path().join("one.ndjson"),
        "{\"name\":\"Rex\",\"categoryId\":1}\n",
    )
    .expect("a file");
    run(other.path(), &[], &["pets", "import", "one.ndjson"]).exits(0);
    assert_eq!(format(other.path()), present);
}

#[test]
fn what_an_operator_has_added_to_a_file_survives_a_migration() {
    let folder = folder();
    older(folder.path());
    let added = "CREATE VIEW open_orders AS SELECT id FROM orders WHERE status = 'open';
                 CREATE TABLE notes (order_id INTEGER REFERENCES orders (id) ON DELETE CASCADE);
                 CREATE INDEX orders_by_time ON orders (placed_at);
                 CREATE TRIGGER changed AFTER UPDATE ON pets BEGIN INSERT INTO notes SELECT id FROM orders; END;
                 CREATE TRIGGER placed AFTER INSERT ON orders BEGIN INSERT INTO notes VALUES (new.id); END;
                 INSERT INTO orders (pet_id, status, placed_at, ended_at) VALUES (1, 'complete', 7, 8)";
    let database = || Connection::open(folder.path().join(FILE)).expect("a file");
    database().execute_batch(added).expect("additions");
    let listed = || {
        let names = "'open_orders', 'notes', 'orders_by_time', 'changed', 'placed'";
        let sql = format!(
            "SELECT group_concat(sql ORDER BY name) FROM sqlite_schema WHERE name IN ({names})"
        );
        let text = |sql: &str| database().query_row(sql, (), |row| row.get::<_, String>(0));
        (
            text(&sql).expect("their SQL"),
            text("SELECT group_concat(order_id) FROM notes").expect("the rows"),
        )
    };
    let before = listed();
    assert_eq!(before.1, "1");
    // A migration that fails changes nothing.
    database()
        .execute_batch("CREATE TABLE new_orders (id)")
        .expect("a table");
    let line = run(folder.path(), &[], &["migrate"]).fails_with(1);
    let present = current_format();
    let failed = format!(
        "cannot open animal-store.db: cannot migrate it from format 2 to {present}: table new_orders already exists"
    );
    assert!(line.contains(&failed), "{line}");
    database()
        .execute_batch("DROP TABLE new_orders")
        .expect("no table");
    run(folder.path(), &[], &["migrate"]).exits(0);
    assert_eq!(listed(), before);
    // The order changes its animal, so both triggers run.
    run(folder.path(), &[], &["orders", "place", "--pet", "1"]).exits(0);
    assert_eq!(listed().1, "1,1,2");
}

#[test]
fn migrate_reports_what_it_did() {
    let folder = folder();
    let present = current_format();
    let report =
        |before: Value| json!({"database": FILE, "formatBefore": before, "format": present});
    let migrate = || {
        let output = run(folder.path(), &[], &["migrate", "--json"]).exits(0);
        serde_json::from_str::<Value>(&output.stdout).expect("JSON")
    };
    assert_eq!(migrate(), report(Value::Null));
    assert_eq!(migrate(), report(json!(present)));
    let again = run(folder.path(), &[], &["migrate"]).exits(0);
    assert_eq!(
        again.stdout,
        format!("animal-store.db already has format {present}\n")
    );
    fs::remove_file(folder.path().join(FILE)).expect("a file");
    older(folder.path());
    assert_eq!(migrate(), report(json!(2)));
}

#[test]
fn a_server_that_must_not_migrate_creates_nothing() {
    let config = folder();
    let file = config.path().join("config.toml");
    fs::write(&file, "no-migrate = true\n").expect("a file");
    let file = file.display().to_string();
    for (vars, args) in [
        (&[][..], &["--no-migrate"][..]),
        (&[("ANIMAL_STORE_NO_MIGRATE", "true")], &[]),
        (&[], &["--config", &file]),
    ] {
        let folder = folder();
        let serve = [&["serve"][..], &FREE_PORTS, args].concat();
        let line = run(folder.path(), vars, &serve).fails_with(1);
        assert!(
            line.contains("there is no database at animal-store.db"),
            "{line}"
        );
        assert!(contents(folder.path()).is_empty());
        // One that an operator has created is served.
        run(folder.path(), &[], &["migrate"]).exits(0);
        drop(Process::serve_with(PROGRAM, folder.path(), args, vars));
    }
}

#[test]
fn the_file_of_a_running_server_is_not_migrated() {
    let folder = folder();
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let database = Connection::open(folder.path().join(FILE)).expect("a file");
    database
        .pragma_update(None, "user_version", 2)
        .expect("a format");
    let line = run(folder.path(), &[], &["migrate"]).fails_with(1);
    assert!(
        line.contains(&format!("in use by process {}", server.id())),
        "{line}"
    );
    assert_eq!(format(folder.path()), 2);
}

#[test]
fn a_migration_waits_for_the_lock_of_another_process_as_any_command_does() {
    let folder = folder();
    older(folder.path());
    // Longer than a server waits.
    let migrated = while_locked(folder.path(), Duration::from_secs(4), || {
        run(folder.path(), &[], &["migrate"])
    });
    let said =
        "animal-store: waiting up to 30 s for the database lock, which another process holds\n";
    assert_eq!(migrated.exits(0).stderr.matches(said).count(), 1);
    assert_eq!(format(folder.path()), current_format());
}
