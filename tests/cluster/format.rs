//! The format of a database on PostgreSQL: what may change it, and that nodes that start meanwhile wait.

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Postgres, Process, SqlClient, eventually, run};
use tempfile::TempDir;

use crate::PROGRAM;

/// How long anything may take that is not slow on purpose.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Free ports, and no first key.
const SERVE: [&str; 6] = [
    "serve",
    "--no-first-key",
    "--listen",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
];

/// Commands that do not migrate.
const COMMANDS: [&str; 7] = [
    "keys list",
    "keys show 1",
    "keys usage",
    "orders list",
    "keys create --name a --plan free",
    "pets set-status 1 sold",
    "serve --no-migrate --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0",
];

/// Runs a command on a database to its end, in a folder of its own.
fn on(database: &str, args: &str) -> harness::Output {
    let folder = TempDir::new().expect("a folder");
    let args: Vec<_> = args.split(' ').chain(["--database", database]).collect();
    run(PROGRAM, folder.path(), &args)
}

#[test]
fn a_database_that_cannot_store_every_name_is_rejected() {
    let postgres = Postgres::start();
    let create = "create database latin encoding 'LATIN1' locale 'C' template template0";
    postgres.psql("postgres", create);
    let url = postgres.url().replace("/postgres", "/latin");
    for command in ["migrate", "serve"] {
        let line = on(&url, command).fails_with(1);
        let cause = "the encoding of the database is LATIN1: create one with ENCODING 'UTF8'";
        assert!(
            line.contains("--database") && line.contains(cause),
            "{line}"
        );
    }
}

#[test]
fn a_node_warns_of_a_server_that_may_lose_what_is_acknowledged() {
    let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
    let url = postgres.url();
    let warning = "WARN PostgreSQL has fsync = off";
    for (fsync, warns) in [("on", false), ("off", true)] {
        let set = format!("alter system set fsync = {fsync}");
        for sql in [&set, "select pg_reload_conf()"] {
            postgres.psql("postgres", sql);
        }
        let node = Process::serve(PROGRAM, folder.path(), &["--database", &url]);
        let mut log = String::new();
        eventually(TIMEOUT, "it is ready", || {
            log.push_str(&node.log());
            log.contains("INFO ready")
        });
        assert_eq!(log.contains(warning), warns, "{fsync}: {log}");
    }
}

fn tables(postgres: &Postgres) -> String {
    postgres.psql(
        "postgres",
        "select count(*) from pg_tables where schemaname = 'public'",
    )
}

/// Makes every new index take this long, as on a table with very many rows.
pub(crate) fn slow_down(postgres: &Postgres, seconds: u32) {
    postgres.psql(
        "postgres",
        &format!(
            "create function slow() returns event_trigger language plpgsql as
             $$ begin if tg_tag = 'CREATE INDEX' then perform pg_sleep({seconds}); end if; end $$;
             create event trigger slow on ddl_command_start execute function slow()"
        ),
    );
}

/// A server that has not started yet, and the lines it logs.
pub(crate) struct Starting {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Starting {
    pub(crate) fn on(database: &str) -> Self {
        Self::notifying(None, database)
    }

    /// One that notifies a service manager at this socket.
    fn notifying(socket: Option<&Path>, database: &str) -> Self {
        let mut child = harness::command(PROGRAM)
            .args(SERVE)
            .args(["--database", database])
            .envs(socket.map(|socket| ("NOTIFY_SOCKET", socket)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    /// Waits for a line with this text. It fails if the server exits before that.
    #[track_caller]
    pub(crate) fn logs(&mut self, text: &str) -> String {
        let mut all = Vec::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            let found = line.contains(text);
            all.push(line);
            if found {
                return all.pop().unwrap_or_default();
            }
        }
        panic!("no line with {text:?}: {all:#?}");
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn only_serve_and_migrate_create_tables() {
    let postgres = Postgres::start();
    let shown = format!("postgres://127.0.0.1:{}/postgres", postgres.port());
    for args in COMMANDS {
        let advice = match args.starts_with("serve") {
            true => {
                "run `animal-store migrate` with its URL as --database, or start the server without --no-migrate, to create it"
            }
            false => {
                "run `animal-store migrate` with its URL as --database, or start the server, to create it"
            }
        };
        assert_eq!(
            on(&postgres.url(), args).fails_with(1),
            format!("animal-store: --database: there is no database at {shown}: {advice}")
        );
        assert_eq!(tables(&postgres), "0", "{args}");
    }
    let migrated = on(&postgres.url(), "migrate").exits(0);
    assert!(
        migrated
            .stdout
            .starts_with(&format!("created {shown} with format "))
    );
    on(&postgres.url(), "keys create --name a --plan free").exits(0);

    // A role that may only read can run the commands that only read.
    let role = "create role auditor login; grant select on all tables in schema public to auditor";
    postgres.psql("postgres", role);
    let auditor = postgres.url().replace("animals@", "auditor@");
    for args in ["keys list", "keys show 1", "keys usage", "orders list"] {
        on(&auditor, args).exits(0);
    }
}

#[test]
fn a_format_that_is_not_the_current_one_is_reported_in_one_line_and_left_alone() {
    let postgres = Postgres::start();
    let shown = format!("postgres://127.0.0.1:{}/postgres", postgres.port());
    on(&postgres.url(), "migrate").exits(0);
    let format = "select format from animal_store_format";
    let known: i64 = postgres.psql("postgres", format).parse().expect("a format");
    for (found, reason) in [
        (
            known - 1,
            format!("needs format {known}: run `animal-store migrate` with its URL as --database"),
        ),
        (
            known + 1,
            format!("supports formats up to {known}: use a newer animal-store"),
        ),
    ] {
        let change = format!("update animal_store_format set format = {found}");
        postgres.psql("postgres", &change);
        for args in COMMANDS {
            assert_eq!(
                on(&postgres.url(), args).fails_with(1),
                format!(
                    "animal-store: --database: {shown} has format {found}, and this version {reason}"
                )
            );
        }
        assert_eq!(postgres.psql("postgres", format), found.to_string());
    }
    let line = on(&postgres.url(), "migrate").fails_with(1);
    assert!(line.ends_with("use a newer animal-store"), "{line}");
}

#[test]
fn a_migration_may_take_longer_than_30_s_and_nodes_that_start_meanwhile_wait() {
    let postgres = Postgres::start();
    slow_down(&postgres, 7);
    let began = Instant::now();
    let nodes = std::thread::scope(|scope| {
        let url = postgres.url();
        let start = |wait| {
            let url = url.clone();
            scope.spawn(move || {
                std::thread::sleep(wait);
                let folder = TempDir::new().expect("a folder");
                let args = ["--no-first-key", "--database", &url];
                Process::serve(PROGRAM, folder.path(), &args)
            })
        };
        [start(Duration::ZERO), start(Duration::from_secs(2))]
            .map(|node| node.join().expect("a node"))
    });
    let took = began.elapsed();
    assert!(took > Duration::from_secs(30), "not slow: {took:?}");
    let logs = nodes.each_ref().map(Process::log);
    let both = logs.concat();
    for text in [
        "migrating the database to format 1",
        "waiting for another process",
    ] {
        let count = both.matches(text).count();
        assert!(count >= 5, "{count} lines with {text:?}: {both}");
    }
    for node in &nodes {
        assert_eq!(node.client(None).get("/readyz").status, 200);
    }
}

#[test]
fn a_node_that_is_killed_while_it_migrates_leaves_nothing_behind_and_the_next_one_migrates() {
    let postgres = Postgres::start();
    slow_down(&postgres, 2);
    let first = Starting::on(&postgres.url());
    eventually(TIMEOUT, "it migrates", || {
        let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        postgres.psql("postgres", sleeping) == "1"
    });
    drop(first);
    postgres.psql("postgres", "drop event trigger slow");
    assert_eq!(
        tables(&postgres),
        "1",
        "the row that is the lock, and nothing else"
    );
    let folder = TempDir::new().expect("a folder");
    let args = ["--no-first-key", "--database", &postgres.url()];
    let node = Process::serve(PROGRAM, folder.path(), &args);
    assert_eq!(node.client(None).get("/readyz").status, 200);
}

#[test]
fn a_migration_that_is_killed_while_it_waits_for_a_lock_keeps_no_locks_of_its_own() {
    let postgres = Postgres::start();
    let url = postgres.url();
    on(&url, "migrate").exits(0);
    let older = "update animal_store_format set format = 4; drop index orders_listed";
    postgres.psql("postgres", older);
    let sql_client = SqlClient::open(&url.parse().expect("a database"));
    sql_client.lock("orders");
    let node = Starting::on(&url);
    let waiting = || {
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        postgres.psql("postgres", waiting)
    };
    eventually(TIMEOUT, "it waits", || waiting() == "1");
    drop(node);
    eventually(TIMEOUT, "its session ends", || waiting() == "0");
    sql_client.unlock();
    on(&url, "migrate").exits(0);
}

#[test]
fn a_long_migration_extends_the_start_timeout_of_the_service_manager() {
    let postgres = Postgres::start();
    slow_down(&postgres, 3);
    let folder = TempDir::new().expect("a folder");
    let socket = folder.path().join("notify");
    let notified = UnixDatagram::bind(&socket).expect("a socket");
    notified.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let _node = Starting::notifying(Some(&socket), &postgres.url());
    let mut first = [0; 4096];
    let size = notified.recv(&mut first).expect("a notification");
    let first = String::from_utf8_lossy(&first[..size]);
    let extended = "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=Opening the database";
    assert!(first.starts_with(extended), "{first}");
}

/// Creates the row that a migration locks, in an empty database.
pub(crate) fn create_format_row(postgres: &Postgres) {
    let table = "create table animal_store_format (id bigint primary key, format bigint not null);
                 insert into animal_store_format values (1, 0)";
    postgres.psql("postgres", table);
}

#[test]
fn a_node_waits_for_the_row_of_the_format_and_can_be_shut_down_meanwhile() {
    let postgres = Postgres::start();
    create_format_row(&postgres);
    let sql_client = SqlClient::open(&postgres.url().parse().expect("a database"));
    sql_client.lock("animal_store_format");
    let (mut one, mut two) = (Starting::on(&postgres.url()), Starting::on(&postgres.url()));
    for node in [&mut one, &mut two] {
        node.logs("waiting for another process, which is migrating the database");
    }
    let id = two.child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &id]).status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(two.child.wait().expect("a child").code(), Some(1));
    sql_client.unlock();
    one.logs("ready");
}
