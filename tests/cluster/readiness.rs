//! A node that cannot reach PostgreSQL reports that without waiting for it, and how old its keys are.

use std::time::{Duration, Instant};

use harness::{Postgres, Process, Response, SqlClient, Stopwatch, eventually, run};
use tempfile::TempDir;

use crate::{Cluster, PROGRAM, rex};

/// The 99th percentile and the maximum of the time to a response that needs no other server. One that waits for PostgreSQL takes two
/// seconds.
const P99: Duration = Duration::from_millis(200);
const SLOWEST: Duration = Duration::from_secs(1);

/// How long anything else may take.
const TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn a_node_cut_off_from_postgresql_is_not_ready_and_shows_the_age_of_its_keys() {
    let cluster = Cluster::start();
    let (id, key) = cluster.key(1_000_000, 1_000_000);
    let client = cluster.nodes[0].client(Some(&key));
    client.create_many(30);
    assert_eq!(client.get("/v1/pets?limit=5").status, 200);
    let age = || -> f64 {
        cluster
            .metric(0, "animal_store_keys_age_seconds ")
            .parse()
            .expect("a number")
    };
    assert!(age() < 5.0);

    cluster.postgres.stall();
    let began = Instant::now();
    let mut took = Vec::new();
    let mut get = |target: &str| {
        let began = Stopwatch::start();
        let response = client.get(target);
        took.push(began.elapsed());
        response
    };
    while get("/readyz").status == 200 {
        assert!(began.elapsed() < Duration::from_secs(2), "still ready");
    }
    let mut message = String::new();
    eventually(Duration::from_secs(10), "the keys are old", || {
        let response = get("/readyz?verbose");
        response.is_error(503, "unavailable");
        message = response.message();
        message.contains("keys: degraded (not current since 20")
    });
    assert!(message.contains("store: failed ("), "{message}");
    assert!(age() >= 5.0, "{}", age());
    // What is cached is served all the same, to keys that may have been revoked meanwhile.
    assert_eq!(get("/v1/pets?limit=5").status, 200);
    took.sort();
    let (p99, slowest) = (took[took.len() * 99 / 100], took[took.len() - 1]);
    assert!(
        p99 < P99 && slowest < SLOWEST,
        "{p99:?}, {slowest:?} for a value in memory"
    );

    cluster.postgres.resume();
    cluster.command(&["keys", "revoke", &id.to_string()]);
    eventually(Duration::from_secs(5), "ready again", || {
        client.get("/readyz?verbose").status == 200
            && client.get("/v1/pets?limit=5").status == 401
            && age() < 5.0
    });
}

#[test]
fn reads_that_fail_in_an_outage_are_a_few_lines_in_the_log_and_one_that_fails_alone_has_its_own() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let url = postgres.url();
    let args = ["--no-first-key", "--database", &url];
    let node = Process::serve(PROGRAM, folder.path(), &args);
    let create = ["keys", "create", "--name", "a", "--plan", "business"];
    let database = ["--database", &url];
    let key = run(PROGRAM, folder.path(), &[&create[..], &database].concat()).exits(0);
    let client = node.client(Some(key.stdout.trim_end()));
    // It does not exist, so it is never cached.
    let read = || client.get("/v1/pets/1");
    assert_eq!(read().status, 404);

    // The log up to the line of this request.
    let log_until = |response: &Response| {
        let line = format!(
            " request id={} ",
            response.header("x-request-id").expect("an ID")
        );
        let mut log = String::new();
        eventually(TIMEOUT, "its line is written", || {
            log += &node.log();
            log.contains(&line)
        });
        log
    };

    postgres.stop_immediately();
    let began = Instant::now();
    let mut count = 0;
    let last = loop {
        let rejected = read();
        rejected.is_error(503, "unavailable");
        count += 1;
        if count > 200 && client.get("/readyz").status == 503 {
            break rejected;
        }
        assert!(began.elapsed() < TIMEOUT, "still ready");
    };
    let log = log_until(&last);
    let lines = log.matches(" ERROR request failed ").count();
    // None, if the outage was logged before the first read failed.
    let outage = log.find("failed check=\"store\"");
    let least = usize::from(outage > log.find(" status=503 "));
    assert!((least..=4).contains(&lines), "{lines} of {count}: {log}");
    let logged = log.matches("failed check=\"store\"").count();
    assert_eq!(logged, 1, "{log}");

    postgres.start_again();
    eventually(TIMEOUT, "it reads again", || {
        read().status == 404 && client.get("/readyz").status == 200
    });
    let sql_client = SqlClient::open(&url.parse().expect("a database"));
    sql_client.query("BEGIN");
    sql_client.query("LOCK TABLE pets IN ACCESS EXCLUSIVE MODE");
    // At most one failed read a second is logged, and one that failed a moment ago may have been that one.
    std::thread::sleep(Duration::from_millis(1_100));
    let rejected = read();
    rejected.is_error(503, "unavailable");
    let log = log_until(&rejected);
    let id = rejected.header("x-request-id").expect("an ID");
    let line = format!(r#" ERROR request failed id="{id}" operation="getPet""#);
    assert!(log.contains(&line), "{log}");
}

#[test]
fn a_creation_that_failed_in_an_outage_leaves_nothing_degraded_though_none_follows() {
    let cluster = Cluster::start();
    let client = cluster.nodes[0].client(Some(&cluster.large_key()));
    assert_eq!(client.create(&rex()).status, 201);
    cluster.proxy.cut();
    client.create(&rex()).is_error(503, "unavailable");
    let writer = || client.get("/readyz?verbose").json()["checks"]["writer"].clone();
    cluster.proxy.restore();
    // An outage in which connections are rejected.
    let session = SqlClient::open(&cluster.postgres.url().parse().expect("a database"));
    session.query("ALTER ROLE animals NOLOGIN");
    session.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
    );
    eventually(TIMEOUT, "rejections", || {
        (0..3).all(|_| client.create(&rex()).status == 503)
    });
    // Not 500: it may succeed later.
    client.get("/v1/pets/999").is_error(503, "unavailable");
    session.query("ALTER ROLE animals LOGIN");
    eventually(TIMEOUT, "degraded", || writer() == "degraded");
    eventually(Duration::from_secs(25), "all is ready", || {
        writer() == "ready"
    });
}

#[test]
fn an_outage_of_the_database_is_one_line_when_it_starts_and_one_when_it_ends() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let url = postgres.url();
    let args = ["--no-first-key", "--database", &url];
    let node = Process::serve(PROGRAM, folder.path(), &args);
    let create = "keys create --name a --plan enterprise --per-minute 1000000 --per-day 1000000";
    let create: Vec<_> = create.split(' ').chain(["--database", &url]).collect();
    let key = run(PROGRAM, folder.path(), &create).exits(0);
    let client = node.client(Some(key.stdout.trim_end()));
    assert_eq!(client.create(&rex()).status, 201);
    let checks = || {
        let page = client.get("/readyz?verbose");
        (
            page.status,
            String::from_utf8_lossy(&page.body).into_owned(),
        )
    };
    eventually(TIMEOUT, "ready", || checks().0 == 200);
    let mut log = String::new();
    eventually(TIMEOUT, "the line", || {
        log += &node.log();
        log.contains(" ready ")
    });
    log.clear();

    postgres.stop_immediately();
    // Long enough that usage is not stored, the writer is degraded and the keys are out of date.
    eventually(TIMEOUT, "all consequences", || {
        assert_eq!(client.create(&rex()).status, 503);
        let (_, page) = checks();
        page.contains("keys: degraded") && page.contains("writer: degraded")
    });
    postgres.start_again();
    eventually(TIMEOUT, "ready again", || {
        client.create(&rex()).status == 201 && checks().1.matches("\"ready\"").count() == 5
    });
    // Whatever is still to be logged is logged now.
    std::thread::sleep(Duration::from_secs(2));
    log += &node.log();
    let events: Vec<_> = log
        .lines()
        .filter(|line| !line.contains(" request "))
        .collect();
    let failures = events.iter().filter(|line| line.contains("request failed"));
    assert!(failures.count() <= 4, "{events:#?}");
    let others: Vec<_> = events
        .iter()
        .filter(|line| !line.contains("request failed"))
        .collect();
    assert_eq!(others.len(), 2, "{others:#?}");
    assert!(
        others[0].contains("WARN readiness check failed check=\"store\""),
        "{others:#?}"
    );
    assert!(
        others[1].contains("INFO readiness check passed again check=\"store\""),
        "{others:#?}"
    );
}
