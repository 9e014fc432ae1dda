//! Nodes of two versions on one database. The later version is this one with one more migration of PostgreSQL. Whether nodes of
//! this version can work with it depends on the test.

use std::time::{Duration, Instant};

use harness::{Client, Output, Postgres, Process, eventually, run};
use tempfile::TempDir;

use crate::{PROGRAM, rex};

/// Two heartbeats, on a busy machine.
const HEARTBEAT_TIME: Duration = Duration::from_secs(12);

/// A later version with a migration that nodes of this version cannot work with.
const BREAKING: &str = "ANIMAL_STORE_FAULT=later-breaking-version";

/// One with a migration that they can work with.
const COMPATIBLE: &str = "ANIMAL_STORE_FAULT=later-version";

/// The formats of this version and of the later one.
const FORMAT: i64 = animal_store::store::FORMATS.1;
const LATER_FORMAT: i64 = FORMAT + 1;

/// Free ports.
const LISTEN: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

/// A PostgreSQL that nodes of several versions use.
struct SharedDatabase {
    postgres: Postgres,
    folder: TempDir,
    key: String,
}

impl SharedDatabase {
    fn start() -> Self {
        let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
        let database = postgres.url();
        let on = ["--database", &database];
        run(PROGRAM, folder.path(), &[&["migrate"][..], &on].concat()).exits(0);
        let create = ["keys", "create", "--name", "a", "--plan", "business"];
        let key = run(PROGRAM, folder.path(), &[&create[..], &on].concat()).exits(0);
        Self {
            key: key.stdout.trim_end().to_owned(),
            postgres,
            folder,
        }
    }

    /// A node of this version, and a client of it.
    fn node(&self) -> (Process, Client) {
        let args = ["--no-first-key", "--database", &self.postgres.url()];
        let node = Process::serve(PROGRAM, self.folder.path(), &args);
        let client = node.client(Some(&self.key));
        (node, client)
    }

    /// Runs a command of a later version until it exits. If it served, it would time out.
    fn later(&self, version: &str, command: &[&str]) -> Output {
        let database = self.postgres.url();
        let args = [&["40", "env", version, PROGRAM], command].concat();
        let args = [&args[..], &["--database", &database]].concat();
        run("timeout", self.folder.path(), &args)
    }

    /// Runs a node of this version that cannot start.
    fn fail_to_serve(&self) -> Output {
        let args = ["30", PROGRAM, "serve", "--database", &self.postgres.url()];
        run(
            "timeout",
            self.folder.path(),
            &[&args[..], &LISTEN].concat(),
        )
    }

    /// Makes the rows of the nodes half a minute older.
    fn age(&self) {
        let age = "update nodes set seen_at = seen_at - 30000";
        self.postgres.psql("postgres", age);
    }

    fn format(&self) -> String {
        let format = "select format from animal_store_format";
        self.postgres.psql("postgres", format)
    }

    /// The IDs of the nodes that have a row.
    fn nodes(&self) -> String {
        let ids = "select string_agg(id::text, ' ' order by id) from nodes";
        self.postgres.psql("postgres", ids)
    }

    #[track_caller]
    fn is_rejected_because_of(&self, nodes: &str) {
        let serve = [&["serve"], &LISTEN[..]].concat();
        for command in [&["migrate"], &serve[..]] {
            let line = self.later(BREAKING, command).fails_with(1);
            let text = format!(
                "cannot migrate to format {LATER_FORMAT}: nodes of an older version, which cannot use that format, are running: "
            );
            assert!(line.contains(&text), "{line}");
            assert!(
                line.contains(&format!("running: {nodes}; shut them down")),
                "{line}"
            );
        }
        assert_eq!(self.format(), FORMAT.to_string());
    }
}

#[test]
fn a_migration_that_older_nodes_cannot_work_with_is_rejected_until_all_of_them_have_stopped() {
    let shared = SharedDatabase::start();
    let ((mut one, client), (mut two, _)) = (shared.node(), shared.node());
    let version = env!("CARGO_PKG_VERSION");
    let names = [1, 2].map(|id| format!("node {id} (version {version})"));
    shared.is_rejected_because_of(&names.join(", "));
    assert_eq!(client.create(&rex()).status, 201);

    one.signal("TERM");
    assert_eq!(one.ends_within(HEARTBEAT_TIME), Some(0));
    assert_eq!(shared.nodes(), "2");
    shared.is_rejected_because_of(&names[1]);

    // A killed one counts as running for half a minute.
    two.kill();
    shared.is_rejected_because_of(&names[1]);
    shared.age();
    shared.later(BREAKING, &["migrate"]).exits(0);
    assert_eq!(shared.format(), LATER_FORMAT.to_string());
    assert_eq!(shared.nodes(), "");
}

#[test]
fn a_migration_that_older_nodes_can_work_with_runs_beside_them_and_they_continue_to_report() {
    let shared = SharedDatabase::start();
    let (mut node, client) = shared.node();
    shared.later(COMPATIBLE, &["migrate"]).exits(0);
    assert_eq!(shared.format(), LATER_FORMAT.to_string());
    shared.age();
    let seen = "select count(*) from nodes
                where seen_at > extract(epoch from clock_timestamp()) * 1000 - 20000";
    eventually(HEARTBEAT_TIME, "a heartbeat", || {
        shared.postgres.psql("postgres", seen) == "1"
    });
    assert_eq!(client.create(&rex()).status, 201);

    let line = shared.fail_to_serve().fails_with(1);
    assert!(line.ends_with("use a newer animal-store"), "{line}");
    node.signal("TERM");
    assert_eq!(node.ends_within(HEARTBEAT_TIME), Some(0));
}

#[test]
fn a_node_that_was_paused_while_it_counted_as_dead_stops_when_it_continues() {
    let shared = SharedDatabase::start();
    let (mut node, _) = shared.node();
    node.signal("STOP");
    shared.age();
    shared.later(BREAKING, &["migrate"]).exits(0);
    node.signal("CONT");
    assert_eq!(node.ends_within(HEARTBEAT_TIME), Some(1));
    let log = node.log();
    let text = format!("a newer version has migrated the database to format {LATER_FORMAT}");
    assert!(log.contains(&text), "{log}");
}

#[test]
fn a_node_that_was_paused_for_very_long_registers_again_if_nothing_was_migrated() {
    let shared = SharedDatabase::start();
    let (mut node, client) = shared.node();
    shared.postgres.psql("postgres", "delete from nodes");
    eventually(HEARTBEAT_TIME, "a row", || shared.nodes() == "2");
    assert_eq!(client.create(&rex()).status, 201);
    node.signal("TERM");
    assert_eq!(node.ends_within(HEARTBEAT_TIME), Some(0));
    assert_eq!(shared.nodes(), "");
}

#[test]
fn the_row_of_a_node_that_was_killed_is_deleted_by_one_that_starts_after_an_hour() {
    let shared = SharedDatabase::start();
    let killed = "insert into nodes (id, version, format, seen_at)
         select 1000 + age, '0.1.0', 1, (extract(epoch from now()) * 1000)::int8 - age * 60000
         from (values (59), (61)) as minutes (age)";
    shared.postgres.psql("postgres", killed);
    let (_node, _) = shared.node();
    assert_eq!(shared.nodes(), "1 1059");
}

#[test]
fn no_older_node_starts_while_a_breaking_migration_is_in_progress() {
    let shared = SharedDatabase::start();
    crate::format::slow_down(&shared.postgres, 5);
    std::thread::scope(|scope| {
        let migrating = scope.spawn(|| shared.later(BREAKING, &["migrate"]));
        eventually(HEARTBEAT_TIME, "it migrates", || {
            let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
            shared.postgres.psql("postgres", sleeping) == "1"
        });
        let began = Instant::now();
        let output = shared.fail_to_serve().exits(1);
        let last = output.stderr.lines().last().unwrap_or_default();
        let format = format!("has format {LATER_FORMAT}");
        assert!(last.contains(&format), "{}", output.stderr);
        assert!(
            began.elapsed() > Duration::from_secs(1),
            "it did not wait for the migration"
        );
        migrating.join().expect("a migration").exits(0);
    });
    assert_eq!(shared.nodes(), "");
}
