//! A table that is locked by another session: a creation that cannot be made is 503, whichever of its statements failed first; and
//! an import that waits for it, or makes others wait.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::{Client, Postgres, Process, Response, SqlClient, eventually, run};
use serde_json::json;
use tempfile::TempDir;

use crate::PROGRAM;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A node on a database of its own, and a client of it.
struct Node {
    process: Process,
    client: Client,
    url: String,
    _folder: TempDir,
}

impl Node {
    fn on(url: String) -> Self {
        let folder = TempDir::new().expect("a folder");
        let database = ["--database", &url];
        let args = [&["--no-first-key", "--log-level", "info"], &database[..]].concat();
        let process = Process::serve(PROGRAM, folder.path(), &args);
        let create = ["keys", "create", "--name", "a", "--plan", "business"];
        let key = run(PROGRAM, folder.path(), &[&create[..], &database].concat()).exits(0);
        let client = process.client(Some(key.stdout.trim_end()));
        Self {
            process,
            client,
            url,
            _folder: folder,
        }
    }

    fn sql_client(&self) -> SqlClient {
        SqlClient::open(&self.url.parse().expect("a database"))
    }
}

/// A process that is suspended until this is dropped.
struct Suspended<'a>(&'a Process);

impl<'a> Suspended<'a> {
    fn new(process: &'a Process) -> Self {
        process.signal("STOP");
        Self(process)
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        self.0.signal("CONT");
    }
}

/// Creates an animal with all the statements that a creation can have.
fn create(client: &Client, name: &str) -> Response {
    client
        .request("POST", "/v1/pets")
        .header("Idempotency-Key", name)
        .json(&json!({"name": name, "categoryId": 1}))
        .send()
}

#[test]
fn a_creation_whose_commit_is_late_may_have_been_made_and_the_response_says_so() {
    let postgres = Postgres::start();
    let node = Node::on(postgres.url());
    postgres.psql(
        "postgres",
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN PERFORM pg_sleep(CASE new.name WHEN ''late'' THEN 1.3 ELSE 0.6 END); RETURN new; END';
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON pets DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION wait()",
    );
    let other = node.sql_client();
    other.lock("counters");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| create(&node.client, "first"));
        eventually(TIMEOUT, "the first one waits for the lock", || {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            postgres.psql("postgres", waiting).trim() == "1"
        });
        // It waits for the transaction of the first one. Its deadline passes during its own commit, which begins after about 1.1
        // seconds and takes 1.3.
        let late = scope.spawn(|| create(&node.client, "late"));
        std::thread::sleep(Duration::from_millis(500));
        other.unlock();
        assert_eq!(first.join().expect("a response").status, 201);
        let late = late.join().expect("a response");
        late.is_error(503, "unavailable");
        let message = late.json()["message"].to_string();
        assert!(message.contains("may have been made"), "{message}");
    });
    eventually(TIMEOUT, "the animal", || {
        let count = postgres.psql("postgres", "SELECT count(*) FROM pets WHERE name = 'late'");
        count.trim() == "1"
    });
}

#[test]
fn a_creation_is_503_while_a_table_is_locked_every_time() {
    let postgres = Postgres::start();
    let nodes: Vec<_> = (0..5)
        .map(|number| Node::on(postgres.create_database(&format!("shop{number}"))))
        .collect();
    std::thread::scope(|scope| {
        for node in nodes {
            scope.spawn(move || {
                // All statements are prepared.
                assert_eq!(create(&node.client, "first").status, 201);
                let sql_client = node.sql_client();
                sql_client.lock("pets");
                for number in 1..=4 {
                    let rejected = create(&node.client, &format!("rejected-{number}"));
                    rejected.is_error(503, "unavailable");
                }
                sql_client.unlock();
                assert_eq!(create(&node.client, "last").status, 201);
            });
        }
    });
}

#[test]
fn a_creation_that_was_the_victim_of_a_deadlock_is_retried() {
    let postgres = Postgres::start();
    // Long enough that both wait by then.
    postgres.psql("postgres", "alter system set deadlock_timeout = '700ms'");
    postgres.psql("postgres", "select pg_reload_conf()");
    let node = Node::on(postgres.url());
    let client = &node.client;
    assert_eq!(create(client, "first").status, 201);
    let sql_client = node.sql_client();
    sql_client.query("SET deadlock_timeout = '20s'");
    let waiting = "select count(*) from pg_locks where not granted";
    let deadlocks = "select deadlocks from pg_stat_database where datname = 'postgres'";
    let seen = || postgres.psql("postgres", deadlocks).parse::<u32>();
    // On a busy machine a creation may time out.
    let mut late = 0;
    for number in 1..=30 {
        let victims = seen().expect("a number");
        if victims >= 10 {
            assert!(late <= victims / 3, "{late} of {victims}");
            return;
        }
        let made = std::thread::scope(|scope| {
            sql_client.lock("pets");
            let creating = scope.spawn(move || create(client, &format!("animal-{number}")));
            eventually(TIMEOUT, "the creation waits", || {
                postgres.psql("postgres", waiting) == "1"
            });
            // The creation has locked its counter: now each waits for the other, and the creation is the victim.
            sql_client.query("SELECT number FROM counters WHERE what = 'pets' FOR UPDATE");
            sql_client.unlock();
            creating.join().expect("a response")
        });
        if made.status != 201 {
            made.is_error(503, "unavailable");
            late += 1;
        }
    }
    panic!("{} deadlocks of 30, {late} late", seen().expect("a number"));
}

#[test]
fn a_locked_table_is_reported_once_until_a_creation_succeeds_though_other_writes_do() {
    let postgres = Postgres::start();
    let node = Node::on(postgres.url());
    assert_eq!(create(&node.client, "first").status, 201);
    let sql_client = node.sql_client();
    sql_client.lock("pets");
    let writer = || node.client.get("/readyz?verbose").json()["checks"]["writer"].clone();
    let stored = "select coalesce(sum(requests), 0) from usage_by_day";
    let used = || -> u32 { postgres.psql("postgres", stored).parse().expect("a sum") };
    for number in 1..=3 {
        let before = used();
        create(&node.client, &format!("rejected-{number}")).is_error(503, "unavailable");
        eventually(TIMEOUT, "its usage is stored", || used() > before);
        eventually(TIMEOUT, "the writer is degraded", || writer() == "degraded");
    }
    sql_client.unlock();
    assert_eq!(create(&node.client, "last").status, 201);
    eventually(TIMEOUT, "the writer is ready", || writer() == "ready");
    let again = "writes to the database succeed again";
    let mut log = String::new();
    eventually(TIMEOUT, again, || {
        log.push_str(&node.process.log());
        log.contains(again)
    });
    for (line, times) in [("cannot write to the database", 1), (again, 1)] {
        assert_eq!(log.matches(line).count(), times, "{log}");
    }
}

#[test]
fn a_node_starts_and_reads_while_no_table_can_be_written() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let url = postgres.url();
    let on = |args: &str| {
        let args: Vec<_> = args.split(' ').chain(["--database", &url]).collect();
        run(PROGRAM, folder.path(), &args).exits(0).stdout
    };
    on("migrate");
    let key = on("keys create --name a --plan business");
    let sql_client = SqlClient::open(&url.parse().expect("a database"));
    sql_client.lock_all();
    let process = Process::serve(PROGRAM, folder.path(), &["--database", &url]);
    let client = process.client(Some(key.trim_end()));
    assert_eq!(client.get("/v1/pets/1").status, 404);
    let registered = || postgres.psql("postgres", "select count(*) from nodes");
    assert_eq!(registered(), "0");
    sql_client.unlock();
    assert_eq!(create(&client, "first").status, 201);
    eventually(TIMEOUT, "the node is registered", || registered() == "1");
}

/// An import of one animal that waits for the counter of animals, which `sql_client` has locked.
fn waiting_import(postgres: &Postgres, node: &Node, sql_client: &SqlClient) -> Child {
    lock_counter(sql_client);
    let import = harness::command(PROGRAM)
        .args(["pets", "import", "-", "--database", &node.url])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut import = import.expect("it runs");
    let mut input = import.stdin.take().expect("a pipe");
    let animal = json!({"name": "imported", "categoryId": 1}).to_string();
    input.write_all(animal.as_bytes()).expect("it reads");
    drop(input);
    waits_for_lock(postgres);
    import
}

/// Locks the counter of IDs.
fn lock_counter(sql_client: &SqlClient) {
    sql_client.query("BEGIN");
    sql_client.query("SELECT number FROM counters WHERE what = 'pets' FOR UPDATE");
}

/// Returns when a session waits for a lock.
fn waits_for_lock(postgres: &Postgres) {
    let waiting = "select count(*) from pg_locks where not granted";
    eventually(TIMEOUT, "a session waits", || {
        postgres.psql("postgres", waiting) == "1"
    });
}

pub(crate) fn signal(process: &Child, name: &str) {
    let id = process.id().to_string();
    let sent = Command::new("kill").args([name, &id]).status();
    assert!(sent.expect("kill runs").success());
}

/// What a command that has failed printed to standard error.
fn failure(import: Child) -> String {
    let output = import.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_node_that_is_suspended_within_a_transaction_does_not_keep_others_from_creating() {
    let postgres = Postgres::start();
    let [node, other] = [0, 1].map(|_| Node::on(postgres.url()));
    let sql_client = node.sql_client();
    std::thread::scope(|scope| {
        lock_counter(&sql_client);
        scope.spawn(|| create(&node.client, "suspended"));
        waits_for_lock(&postgres);
        let _suspended = Suspended::new(&node.process);
        // Now the node has the counter of IDs, and a transaction that is idle.
        sql_client.unlock();
        // Each waits for the lock, until the server has ended the session after three seconds.
        let mut attempts = (0..6).map(|_| create(&other.client, "created").status);
        assert!(attempts.any(|status| status == 201), "the lock is held");
    });
}

#[test]
fn an_import_that_is_suspended_while_a_creation_waits_for_it_is_ended_by_the_server_before_that_fails()
 {
    let postgres = Postgres::start();
    let node = Node::on(postgres.url());
    assert_eq!(create(&node.client, "first").status, 201);
    let sql_client = node.sql_client();
    let import = waiting_import(&postgres, &node, &sql_client);
    signal(&import, "-STOP");
    // Now the import has the lock, and a transaction that is idle.
    sql_client.unlock();
    // After a second the server ends its session.
    assert_eq!(create(&node.client, "created").status, 201);
    signal(&import, "-CONT");
    let line = failure(import);
    assert!(line.contains("cannot import standard input: "), "{line}");
    assert_eq!(
        postgres.psql(
            "postgres",
            "select count(*) from pets where name = 'imported'"
        ),
        "0"
    );
}

#[test]
fn an_import_that_waits_for_a_lock_ends_with_a_signal() {
    let postgres = Postgres::start();
    let node = Node::on(postgres.url());
    let sql_client = node.sql_client();
    let mut import = waiting_import(&postgres, &node, &sql_client);
    signal(&import, "-TERM");
    eventually(Duration::from_secs(5), "it ends", || {
        import.try_wait().expect("a process").is_some()
    });
    assert_eq!(
        failure(import),
        "animal-store: stopped by SIGTERM: nothing was imported\n"
    );
    sql_client.unlock();
    assert_eq!(create(&node.client, "created").status, 201);
    assert_eq!(postgres.psql("postgres", "select count(*) from pets"), "1");
}
