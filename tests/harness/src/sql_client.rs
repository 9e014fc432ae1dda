//! Another client of a server's database: an operator with a tool of their own, or another process.

use std::error::Error;

use animal_store::store::Database;
use rusqlite::types::ValueRef;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// Locks every table with data of the service: everyone can read and nobody else can write, as with `BEGIN IMMEDIATE`.
const LOCK_ALL: &str = "BEGIN; LOCK TABLE counters, revisions, pets, api_keys, usage_by_day, use_batches, idempotency, orders \
                    IN EXCLUSIVE MODE";

/// Nodes poll this number, and no trigger raises it: docs/clusters.md asks operators who change an animal with SQL to do so.
const RAISE: &str = "UPDATE revisions SET number = number + 1 WHERE what = 'pets'";

/// A second connection to a database, for plain SQL.
#[derive(Debug)]
pub struct SqlClient(Tool);

#[derive(Debug)]
enum Tool {
    Sqlite(rusqlite::Connection),
    Postgres(Client, Runtime),
}

impl SqlClient {
    /// Opens an existing database.
    #[track_caller]
    pub fn open(database: &Database) -> Self {
        Self(match database {
            Database::Sqlite(path) => {
                Tool::Sqlite(rusqlite::Connection::open(path).expect("a file"))
            }
            Database::Postgres(url) => {
                let (client, runtime) = connect(url.servers().first().expect("a server"));
                Tool::Postgres(client, runtime)
            }
        })
    }

    /// Changes animals, or anything else, as the docs tell operators to. The error is that of the engine.
    pub fn change(&self, sql: &str) -> Result<(), String> {
        match &self.0 {
            Tool::Sqlite(_) => self.run(sql),
            // Sent together, so it is one transaction.
            Tool::Postgres(..) => self.run(&format!("{sql}; {RAISE}")),
        }
    }

    /// Adds an animal, and does not raise the revision.
    #[track_caller]
    pub fn add_pet(&self, name: &str, category: i64, status: &str) {
        let added = match &self.0 {
            Tool::Sqlite(_) => self.run(&format!(
                "INSERT INTO pets (name, category_id, status) VALUES ('{name}', {category}, '{status}')"
            )),
            Tool::Postgres(..) => self.run(&format!(
                "UPDATE counters SET number = number + 1 WHERE what = 'pets';
                 INSERT INTO pets (id, name, category_id, status)
                 SELECT number, '{name}', {category}, '{status}' FROM counters WHERE what = 'pets'"
            )),
        };
        added.expect("an animal");
    }

    /// Adds this many keys, all on the enterprise plan. Nobody has their secrets.
    #[track_caller]
    pub fn add_keys(&self, count: u32) {
        let added = match &self.0 {
            Tool::Sqlite(_) => self.run(&format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
                 INSERT INTO api_keys (name, plan, per_minute, per_day, prefix, hash, created_at)
                 SELECT 'key ' || i, 'enterprise', 10, 10, 'as_00000', randomblob(32), 0 FROM n"
            )),
            Tool::Postgres(..) => self.run(&format!(
                "UPDATE revisions SET number = number + 1 WHERE what = 'api_keys';
                 INSERT INTO api_keys (id, name, plan, per_minute, per_day, prefix, hash, created_at, revision)
                 SELECT c.number + i, 'key ' || i, 'enterprise', 10, 10, 'as_00000',
                        decode(md5(random()::text) || md5(random()::text), 'hex'), 0, r.number
                 FROM counters c, revisions r, generate_series(1, {count}) i
                 WHERE c.what = 'api_keys' AND r.what = 'api_keys';
                 UPDATE counters SET number = number + {count} WHERE what = 'api_keys'"
            )),
        };
        added.expect("keys");
    }

    /// Changes the limit per minute of every key on the enterprise plan, in one transaction.
    #[track_caller]
    pub fn change_all_keys(&self, per_minute: u32) {
        let changed = match &self.0 {
            Tool::Sqlite(_) => self.run(&format!(
                "UPDATE api_keys SET per_minute = {per_minute} WHERE plan = 'enterprise'"
            )),
            Tool::Postgres(..) => self.run(&format!(
                "UPDATE revisions SET number = number + 1 WHERE what = 'api_keys';
                 UPDATE api_keys SET per_minute = {per_minute}, revision = r.number
                 FROM revisions r WHERE plan = 'enterprise' AND r.what = 'api_keys'"
            )),
        };
        changed.expect("changed keys");
    }

    /// Blocks all other writers until it is [unlocked](Self::unlock) or dropped. Reads continue.
    #[track_caller]
    pub fn lock_all(&self) {
        let lock = match &self.0 {
            Tool::Sqlite(_) => "BEGIN IMMEDIATE",
            Tool::Postgres(..) => LOCK_ALL,
        };
        let mut locked = self.run(lock);
        // A server's transaction may lock the same tables in another order, and PostgreSQL ends one of the two.
        for _ in 0..5 {
            if !matches!(&locked, Err(error) if error.contains("deadlock")) {
                break;
            }
            self.unlock();
            locked = self.run(lock);
        }
        locked.expect("a lock");
    }

    /// Blocks all other writers of a table of PostgreSQL until it is [unlocked](Self::unlock) or dropped.
    #[track_caller]
    pub fn lock(&self, table: &str) {
        self.run(&format!("BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE"))
            .expect("a lock");
    }

    /// Releases the lock.
    #[track_caller]
    pub fn unlock(&self) {
        self.run("ROLLBACK").expect("no lock");
    }

    /// The rows of a query, every column as text. None of them may be null.
    #[track_caller]
    pub fn query(&self, query: &str) -> Vec<Vec<String>> {
        match &self.0 {
            Tool::Sqlite(file) => rows_of_file(file, query).expect(query),
            Tool::Postgres(client, runtime) => {
                let response = runtime.block_on(client.simple_query(query)).expect(query);
                response.iter().filter_map(row_of_server).collect()
            }
        }
    }

    /// Runs statements. The error is that of the engine.
    pub(crate) fn run(&self, sql: &str) -> Result<(), String> {
        match &self.0 {
            Tool::Sqlite(file) => file.execute_batch(sql).map_err(|error| error.to_string()),
            Tool::Postgres(client, runtime) => runtime
                .block_on(client.batch_execute(sql))
                // Its text is only "db error"; its source says which.
                .map_err(|error| error.source().map_or(error.to_string(), |e| e.to_string())),
        }
    }
}

/// A connection and its runtime. When the runtime is dropped, the connection closes, and its locks are released.
fn connect(server: &Config) -> (Client, Runtime) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (client, connection) = runtime
        .block_on(server.connect(NoTls))
        .expect("a connection");
    runtime.spawn(connection);
    (client, runtime)
}

fn rows_of_file(file: &rusqlite::Connection, query: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let mut statement = file.prepare_cached(query)?;
    let columns = statement.column_count();
    let text = |value: ValueRef<'_>| match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8(text.to_vec()).expect("text"),
        other => panic!("{other:?} is neither a number nor a text"),
    };
    let rows = statement.query_map((), |row| {
        (0..columns)
            .map(|column| row.get_ref(column).map(text))
            .collect()
    })?;
    rows.collect()
}

fn row_of_server(message: &SimpleQueryMessage) -> Option<Vec<String>> {
    let SimpleQueryMessage::Row(row) = message else {
        return None;
    };
    let text = |column| row.get(column).expect("not null").to_owned();
    Some((0..row.len()).map(text).collect())
}
