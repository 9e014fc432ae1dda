//! `animal-store copy`: from one machine to several nodes and back, with everything that clients hold.

mod failure;
mod rejection;

use std::path::Path;
use std::time::Duration;

use harness::{Authority, Output, Postgres, Process, Redis, run};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PROGRAM;

const FROM: &str = "sqlite:animal-store.db";

/// Everything in a table, in an order that both engines support.
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

fn copy(folder: &Path, from: &str, to: &str, args: &[&str]) -> Output {
    let copy = ["120", PROGRAM, "copy", "--from", from, "--to", to];
    run("timeout", folder, &[&copy[..], args].concat())
}

fn command(folder: &Path, database: &str, args: &str) -> String {
    let args: Vec<&str> = args.split(' ').chain(["--database", database]).collect();
    run(PROGRAM, folder, &args)
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

/// Fills an embedded database with this many animals, and a thousand keys and orders.
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
fn everything_moves_to_nodes_and_back_and_keys_cursors_and_retries_still_work() {
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
    let busy = copy(folder.path(), FROM, &postgres.url(), &[]).fails_with(1);
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
    // The ID of the animal that was removed is not reused.
    assert_eq!(made.json()["id"], 100_002, "{made}");

    // And back, when no node uses it any more.
    let back = "sqlite:back.db";
    let busy = copy(folder.path(), &postgres.url(), back, &[]).fails_with(1);
    assert!(
        busy.contains(
            "is used by 1 node: shut down every node first (a killed one counts as running for 30 s)"
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
            let args: Vec<&str> = line.split(' ').skip(1).collect();
            if args[0] == "serve" {
                let server = Process::serve(PROGRAM, folder.path(), &args[1..]);
                assert_eq!(server.client(Some(&key)).get("/v1/pets").status, 200);
                served = true;
            } else {
                run(PROGRAM, folder.path(), &args).exits(0);
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
    // The first is copied in another way; the others are not data.
    copied.extend(["counters", "animal_store_format", "nodes"]);
    copied.sort_unstable();
    let found = postgres.psql(
        "postgres",
        "select tablename from pg_tables where schemaname = 'public' order by 1",
    );
    assert_eq!(found.lines().collect::<Vec<_>>(), copied);
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
    .fails_with(1);
    assert!(line.contains("certificate"), "{line}");
    let args = ["--ca-cert", &ca, "--database-password-file", "password"];
    copy(folder.path(), FROM, &to, &args).exits(0);
    copy(folder.path(), &to, "sqlite:back.db", &args).exits(0);
    assert_equal(
        &dump_file(&folder.path().join("back.db")),
        &dump_server(&postgres, "postgres"),
    );
}
