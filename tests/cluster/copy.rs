//! `animal-store copy`: from one machine to several nodes and back, with everything that clients hold.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{Authority, Output, Postgres, Process, Redis, eventually, run};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PROGRAM;

const FROM: &str = "sqlite:animal-store.db";

/// Everything that a table holds, in an order that both engines know.
const DUMPS: [&str; 9] = [
    "SELECT id, name, category_id, status FROM pets ORDER BY id",
    "SELECT id, pet_id, quantity, ship_date, status, placed_at, ended_at FROM orders ORDER BY id",
    "SELECT id, name, plan, per_minute, per_day, prefix, old_until, created_at, expires_at, revoked_at, last_used_at, banned_at,
            banned_until, unbanned_at, revision FROM api_keys ORDER BY id",
    "SELECT day, api_key_id, requests, refused FROM usage_by_day ORDER BY day, api_key_id",
    "SELECT api_key_id, pet_id, created_at FROM idempotency ORDER BY pet_id",
    "SELECT recorder, number, made_at FROM use_batches ORDER BY recorder",
    "SELECT what, number FROM revisions ORDER BY what",
    "SELECT number, id FROM deployment",
    "COUNTERS",
];

fn copy(folder: &Path, from: &str, to: &str, words: &[&str]) -> Output {
    let copy = ["120", PROGRAM, "copy", "--from", from, "--to", to];
    run("timeout", folder, &[&copy[..], words].concat())
}

fn command(folder: &Path, database: &str, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').chain(["--database", database]).collect();
    run(PROGRAM, folder, &words)
        .exits(0)
        .stdout
        .trim()
        .to_owned()
}

/// What an embedded database has, a line for each row.
fn dump_file(path: &Path) -> Vec<String> {
    let file = Connection::open(path).expect("a database");
    let dump = |sql: &str| {
        let counters = "SELECT name, seq FROM sqlite_sequence WHERE name IN ('api_keys', 'orders', 'pets') ORDER BY name";
        let sql = if sql == "COUNTERS" { counters } else { sql };
        let mut statement = file.prepare(sql).expect(sql);
        let columns = statement.column_count();
        let mut rows = statement.query(()).expect(sql);
        let mut text = String::new();
        while let Some(row) = rows.next().expect(sql) {
            let value = |column| match row.get_ref(column).expect("a value") {
                rusqlite::types::ValueRef::Null => String::new(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                other => other.as_str().expect("text").to_owned(),
            };
            text.push_str(&(0..columns).map(value).collect::<Vec<_>>().join("|"));
            text.push('\n');
        }
        text.trim_end().to_owned()
    };
    DUMPS.map(dump).to_vec()
}

/// The same of a database on PostgreSQL, by psql.
fn dump_server(postgres: &Postgres, name: &str) -> Vec<String> {
    let counters = "SELECT what, number FROM counters WHERE what <> 'nodes' ORDER BY what";
    let dump = |sql: &str| postgres.psql(name, if sql == "COUNTERS" { counters } else { sql });
    DUMPS.map(dump).to_vec()
}

/// Panics with the first row that differs.
#[track_caller]
fn assert_equal(one: &[String], other: &[String]) {
    let lines = |tables: &[String]| {
        tables
            .join("\n--\n")
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (one, other) = (lines(one), lines(other));
    let different = one.iter().zip(&other).find(|(one, other)| one != other);
    assert_eq!(different, None);
    assert_eq!(one.len(), other.len());
}

/// Fills an embedded database: so many animals, and a thousand keys and orders.
fn fill(folder: &Path, animals: u32) -> String {
    command(folder, FROM, "migrate");
    let limits = "--per-minute 1000000 --per-day 1000000";
    let key = command(
        folder,
        FROM,
        &format!("keys create --name me --plan enterprise {limits}"),
    );
    let file = Connection::open(folder.join("animal-store.db")).expect("a database");
    let script = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {animals})
         INSERT INTO pets (name, category_id, status)
         SELECT 'Zoë 🐈 \\ ' || char(9731) || i, (i - 50000) * 9000000000, 'available' FROM n;
         DELETE FROM pets WHERE id = {animals};
         WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO api_keys (name, plan, prefix, hash, old_hash, old_until, created_at, expires_at, revoked_at, last_used_at,
                               banned_at, banned_until, unbanned_at)
         SELECT 'key ' || i, 'pro', 'as_' || i, randomblob(32), randomblob(32), i, i, iif(i % 3, NULL, i), iif(i % 5, NULL, i), i,
                i, i + 1, iif(i % 2, NULL, i) FROM n;
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO orders (pet_id, ship_date, status, placed_at, ended_at)
         SELECT i, iif(i % 2, NULL, i * 1000), iif(i % 3, 'complete', 'cancelled'), i, i + 1 FROM n;
         UPDATE pets SET status = 'sold' WHERE id IN (SELECT pet_id FROM orders WHERE status = 'complete');
         INSERT INTO usage_by_day SELECT '2026-11-0' || (id % 9 + 1), id, id, 1 FROM api_keys;
         INSERT INTO use_batches VALUES ('someone', 7, 8)"
    );
    file.execute_batch(&script).expect("rows");
    key
}

/// What the client gets: pages by their cursors, the statuses, orders, and a replayed creation.
fn seen(server: &Process, key: &str, cursors: &[String]) -> Vec<Value> {
    let client = server.client(Some(key));
    let pages = cursors.iter().map(|path| {
        let page = client.get(path);
        assert_eq!(page.status, 200, "{path}: {page}");
        page.json()
    });
    let mut seen: Vec<Value> = pages.collect();
    let animal = json!({"name": "Rex", "categoryId": 1});
    let retry = client
        .request("POST", "/v1/pets")
        .json(&animal)
        .header("Idempotency-Key", "once")
        .send();
    assert_eq!(retry.status, 201, "{retry}");
    seen.push(retry.json());
    seen
}

/// The path of the next page.
fn next(server: &Process, key: &str, path: &str) -> String {
    let page = server.client(Some(key)).get(path);
    let link = page.header("link").unwrap_or_else(|| panic!("{page}"));
    let url = link.split(['<', '>']).nth(1).expect("a URL");
    let start = url.find("/v1/").expect("a path");
    url[start..].to_owned()
}

#[test]
fn everything_moves_to_nodes_and_back_and_keys_cursors_and_retries_go_on_working() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let folder = TempDir::new().expect("a folder");
    let key = fill(folder.path(), 100_000);
    let file = folder.path().join("animal-store.db");

    let mut server = Process::serve(PROGRAM, folder.path(), &[]);
    let paths = [
        "/v1/pets?limit=100",
        "/v1/pets?limit=7&status=sold",
        "/v1/store/orders?limit=50",
    ];
    let mut cursors: Vec<String> = paths.iter().map(|path| next(&server, &key, path)).collect();
    cursors.push(next(&server, &key, &cursors[0]));
    let before = seen(&server, &key, &cursors);
    let busy = copy(folder.path(), FROM, &postgres.url(), &[]).refuses(1);
    assert!(
        busy.contains("--from: animal-store.db is in use by process"),
        "{busy}"
    );
    server.signal("TERM");
    assert_eq!(server.ends_within(Duration::from_secs(10)), Some(0));

    let output = copy(folder.path(), FROM, &postgres.url(), &["--json"]).exits(0);
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let rows = |table: &str| {
        let tables = report["tables"].as_array().expect("tables");
        let found = tables.iter().find(|row| row["table"] == table);
        found.expect(table)["rows"].as_u64().expect("a number")
    };
    println!("{}", output.stdout);
    // One was removed, and one was created by the client.
    assert_eq!(
        [rows("pets"), rows("orders"), rows("api_keys")],
        [100_000, 1_000, 1_000]
    );
    assert_eq!(
        (&report["from"], output.stderr.as_str()),
        (&json!("animal-store.db"), "")
    );
    assert_equal(&dump_file(&file), &dump_server(&postgres, "postgres"));

    let nodes = ["--database", &postgres.url(), "--redis", &redis.url()];
    let server = Process::serve(PROGRAM, folder.path(), &nodes);
    assert_eq!(seen(&server, &key, &cursors), before);
    let client = server.client(Some(&key));
    let made = client.create(&json!({"name": "Next", "categoryId": 1}));
    // The ID of the animal that was removed is not given again.
    assert_eq!(made.json()["id"], 100_002, "{made}");

    // And back, when no node has it any more.
    let back = "sqlite:back.db";
    let busy = copy(folder.path(), &postgres.url(), back, &[]).refuses(1);
    assert!(
        busy.contains(
            "is used by 1 node(s): shut them down first (a killed one counts as running for 30 s)"
        ),
        "{busy}"
    );
    let mut server = server;
    server.signal("TERM");
    assert_eq!(server.ends_within(Duration::from_secs(10)), Some(0));
    command(folder.path(), &postgres.url(), "pets remove 100002 --yes");
    let output = copy(folder.path(), &postgres.url(), back, &[]).exits(0);
    let counts = "100000 animals, 1000 orders, 1000 keys; both have the same rows in all tables\n";
    assert!(output.stdout.ends_with(counts), "{output:?}");
    assert_equal(
        &dump_file(&folder.path().join("back.db")),
        &dump_server(&postgres, "postgres"),
    );
    let server = Process::serve(PROGRAM, folder.path(), &["--database", back]);
    assert_eq!(seen(&server, &key, &cursors), before);
    let made = server
        .client(Some(&key))
        .create(&json!({"name": "Next", "categoryId": 1}));
    assert_eq!(made.json()["id"], 100_003, "{made}");
}

/// The blocks of commands on a page that need PostgreSQL.
fn blocks(page: &str) -> Vec<String> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(page).expect("a page");
    let blocks = text.split("```sh needs-postgresql\n").skip(1);
    blocks
        .map(|rest| rest.split("```").next().expect("a block").to_owned())
        .collect()
}

#[test]
fn the_pages_show_the_commands_of_a_move_as_they_are() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let folder = TempDir::new().expect("a folder");
    command(folder.path(), FROM, "migrate");
    let key = command(folder.path(), FROM, "keys create --name me --plan free");
    let blocks = [blocks("README.md"), blocks("docs/operating.md")].concat();
    assert_eq!(blocks.len(), 2);
    for (number, block) in blocks.iter().enumerate() {
        let database = postgres.create_database(&format!("animals{number}"));
        let written = "postgres://animals@db.internal:5432/animals";
        let block = block.replace(written, &database);
        let block = block.replace("redis://cache.internal:6379", &redis.url());
        let mut served = false;
        for line in block.lines() {
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            if words[0] == "serve" {
                let server = Process::serve(PROGRAM, folder.path(), &words[1..]);
                assert_eq!(server.client(Some(&key)).get("/v1/pets").status, 200);
                served = true;
            } else {
                run(PROGRAM, folder.path(), &words).exits(0);
            }
        }
        assert!(served, "{block}");
    }
}

#[test]
fn every_table_is_copied() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    command(folder.path(), FROM, "migrate");
    let output = copy(folder.path(), FROM, &postgres.url(), &["--json"]).exits(0);
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let tables = report["tables"].as_array().expect("tables");
    let mut copied: Vec<&str> = tables
        .iter()
        .map(|row| row["table"].as_str().expect("a name"))
        .collect();
    // Copied in another way, and not data but who uses it.
    copied.extend(["counters", "animal_store_format", "nodes"]);
    copied.sort_unstable();
    let found = postgres.psql(
        "postgres",
        "select tablename from pg_tables where schemaname = 'public' order by 1",
    );
    assert_eq!(found.lines().collect::<Vec<_>>(), {
        let mut sorted = copied.clone();
        sorted.sort_unstable();
        sorted
    });
    copied.retain(|name| !["counters", "animal_store_format", "nodes"].contains(name));
    let file = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let mut names = file.prepare(names).expect("a list");
    let names: Result<Vec<String>, _> = names
        .query_map((), |row| row.get(0))
        .expect("a list")
        .collect();
    assert_eq!(names.expect("names"), copied);
}

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

#[test]
fn the_options_for_tls_and_passwords_apply_to_a_copy() {
    let authority = Authority::new();
    let certificate = authority.server();
    let postgres =
        Postgres::start_with_tls(&certificate, "hostssl all all 127.0.0.1/32 scram-sha-256");
    postgres.psql("postgres", "alter role animals password 'secret word'");
    let folder = TempDir::new().expect("a folder");
    command(folder.path(), FROM, "migrate");
    command(folder.path(), FROM, "keys create --name a --plan free");
    let password = folder.path().join("password");
    std::fs::write(&password, "secret word\n").expect("a file");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&password, private).expect("a file");
    let ca = certificate.ca.to_str().expect("text").to_owned();
    let to = format!("{}?sslmode=verify-full", postgres.url());
    let line = copy(
        folder.path(),
        FROM,
        &to,
        &["--database-password-file", "password"],
    )
    .refuses(1);
    assert!(line.contains("certificate"), "{line}");
    let words = ["--ca-cert", &ca, "--database-password-file", "password"];
    copy(folder.path(), FROM, &to, &words).exits(0);
    copy(folder.path(), &to, "sqlite:back.db", &words).exits(0);
    assert_equal(
        &dump_file(&folder.path().join("back.db")),
        &dump_server(&postgres, "postgres"),
    );
}
