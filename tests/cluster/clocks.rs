//! A node whose clock is wrong. The database's clock decides: what the node stores and compares is right, and affects no client.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use animal_store::clock::Timestamp;
use harness::{Client, Output, Process, Response, eventually, run};
use serde_json::Value;
use tempfile::TempDir;

use crate::{Cluster, PROGRAM, ensure_minute_left, rex};

/// How long changes may take to reach all nodes.
const PROPAGATION_TIME: Duration = Duration::from_secs(5);

/// A day.
const AHEAD: &str = "+1d";

/// The arguments of a node of this cluster that bans after three rejections.
fn strict_args(cluster: &Cluster) -> Vec<String> {
    let database = cluster.postgres.url();
    let args = [
        "serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --no-first-key --ban-after 3 --log-level warn",
        &format!("--database {database} --redis {}", cluster.redis_url),
    ];
    let args = args.iter().flat_map(|args| args.split(' '));
    args.map(str::to_owned).collect()
}

/// Starts a node, on a machine whose clock is wrong by `wrong`, if any. Its monotonic clock is left alone, as it is when a
/// machine's clock is set. Such a node also sweeps at once.
fn start(cluster: &Cluster, wrong: Option<&str>) -> Process {
    let args = strict_args(cluster);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let folder = cluster.folder.path();
    match wrong {
        None => Process::start(PROGRAM, folder, &args, &[]),
        Some(by) => {
            // faketime starts another process, which would outlive it.
            let wrapper = [
                "--exclude-monotonic",
                "-f",
                by,
                "setpriv",
                "--pdeathsig",
                "KILL",
            ];
            let args = [&wrapper[..], &[PROGRAM], &args[..]].concat();
            let vars = [("ANIMAL_STORE_FAULT", "sweeps-at-once")];
            remove_faketime_leftovers();
            Process::start("faketime", folder, &args, &vars)
        }
    }
}

/// Removes the semaphores of processes that were killed. Otherwise faketime fails if it gets the ID of one of them.
fn remove_faketime_leftovers() {
    for entry in std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = ["sem.faketime_sem_", "faketime_shm_"]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Runs a command on a machine whose clock is a day ahead.
fn command_ahead(cluster: &Cluster, args: &[&str]) -> Output {
    let database = cluster.postgres.url();
    let all = [
        &["--exclude-monotonic", "-f", AHEAD, PROGRAM],
        args,
        &["--database", &database],
    ]
    .concat();
    remove_faketime_leftovers();
    run("faketime", cluster.folder.path(), &all).exits(0)
}

/// What a command prints as JSON.
fn json(cluster: &Cluster, args: &[&str]) -> Value {
    let output = cluster.command(&[args, &["--json"]].concat());
    serde_json::from_str(&output.stdout).expect("JSON")
}

fn list(client: &Client) -> Response {
    client.get("/v1/pets")
}

/// Sends requests until the key is banned, and returns the first response that says so.
fn get_banned(client: &Client) -> Response {
    let mut responses = (0..20).map(|_| list(client));
    let is_ban = |response: &Response| response.status == 429 && response.code() == "key_banned";
    responses.find(is_ban).expect("a ban")
}

/// Whether a time of the first key is not in the future.
fn is_dated_right(cluster: &Cluster, column: &str) -> bool {
    let sql = format!(
        "SELECT {column} <= extract(epoch FROM now()) * 1000 + 2000 FROM api_keys WHERE id = 1"
    );
    cluster.postgres.psql("postgres", &sql).trim() == "t"
}

fn today(cluster: &Cluster) -> String {
    let sql = "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')";
    cluster.postgres.psql("postgres", sql).trim().to_owned()
}

#[test]
fn the_sweep_of_a_node_a_day_ahead_deletes_nobodys_idempotency_records() {
    let cluster = Cluster::start();
    let key = cluster.large_key();
    let right = cluster.nodes[0].client(Some(&key));
    let post = |client: &Client| {
        let request = client.request("POST", "/v1/pets").json(&rex());
        request.header("Idempotency-Key", "once").send()
    };
    let first = post(&right);
    assert_eq!(first.status, 201, "{first}");
    // Old enough that every node may delete it: when it is gone, the sweep has run.
    let old = "INSERT INTO idempotency (api_key_id, idempotency_key, fingerprint, pet_id, created_at)
               SELECT api_key_id, fingerprint, fingerprint, pet_id, created_at - 90000000 FROM idempotency";
    cluster.postgres.psql("postgres", old);
    let count = || {
        let sql = "SELECT count(*) FROM idempotency";
        cluster.postgres.psql("postgres", sql).trim().to_owned()
    };
    assert_eq!(count(), "2");
    let ahead = start(&cluster, Some(AHEAD));
    eventually(PROPAGATION_TIME, "the sweep", || count() != "2");
    assert_eq!(count(), "1");
    for client in [&right, &ahead.client(Some(&key))] {
        let again = post(client);
        assert_eq!(again.status, 201, "{again}");
        assert_eq!(again.json()["id"], first.json()["id"], "{again}");
    }
}

#[test]
fn a_ban_and_an_unban_of_a_machine_a_day_ahead_are_dated_as_on_all_others() {
    let mut cluster = Cluster::start();
    cluster.nodes.clear();
    let (right, ahead) = (start(&cluster, None), start(&cluster, Some(AHEAD)));
    let (id, key) = cluster.key(1, 1_000_000);
    let id = id.to_string();
    let [at_right, at_ahead] = [&right, &ahead].map(|node| node.client(Some(&key)));
    let state = || json(&cluster, &["keys", "show", &id])["state"].clone();
    ensure_minute_left(Duration::from_secs(15));

    cluster.redis.kill();
    let ban = get_banned(&at_ahead);
    assert!((290..=300).contains(&ban.number("retry-after")), "{ban}");
    eventually(PROPAGATION_TIME, "the ban is stored", || {
        state() == "banned"
    });
    assert!(is_dated_right(&cluster, "banned_at"));
    eventually(PROPAGATION_TIME, "the ban on the other node", || {
        let response = list(&at_right);
        response.status == 429 && response.code() == "key_banned"
    });
    let response = list(&at_right);
    let wait = response.number("retry-after");
    assert!((240..=300).contains(&wait), "{response}");

    command_ahead(&cluster, &["keys", "unban", &id]);
    assert_eq!(state(), "active");
    assert!(is_dated_right(&cluster, "unbanned_at"));
    for client in [&at_right, &at_ahead] {
        eventually(PROPAGATION_TIME, "the unban", || {
            let response = list(client);
            response.status == 200 || response.code() == "rate_limited"
        });
    }
    // The next ban is as short as a first one, and is stored.
    let ban = get_banned(&at_right);
    assert!((290..=300).contains(&ban.number("retry-after")), "{ban}");
    eventually(PROPAGATION_TIME, "the next ban is stored", || {
        state() == "banned"
    });
    eventually(PROPAGATION_TIME, "the next ban on the other node", || {
        let response = list(&at_ahead);
        response.status == 429 && response.code() == "key_banned"
    });
}

#[test]
fn usage_is_stored_for_the_day_of_the_decision_whatever_day_the_node_has() {
    let cluster = Cluster::start();
    let (id, key) = cluster.key(1_000, 1_000_000);
    let ahead = start(&cluster, Some(AHEAD));
    let client = ahead.client(Some(&key));
    let usage = || json(&cluster, &["keys", "usage", &id.to_string()]);
    let days = |usage: &Value| -> Vec<String> {
        let rows = usage.as_array().expect("rows").iter();
        rows.map(|row| row["day"].as_str().expect("a day").to_owned())
            .collect()
    };
    let is_stored = |requests: i64| {
        eventually(PROPAGATION_TIME, "the usage is stored", || {
            usage()[0]["requests"] == requests
        });
        assert_eq!(days(&usage()), [today(&cluster)], "{}", usage());
    };
    (0..5).for_each(|_| assert_eq!(list(&client).status, 200));
    is_stored(5);
    cluster.redis.kill();
    (0..5).for_each(|_| assert_eq!(list(&client).status, 200));
    is_stored(10);
}

#[test]
fn a_clock_that_is_wrong_is_reported_in_log_metrics_and_readiness() {
    let cluster = Cluster::start();
    let ready = |node: &Process| node.client(None).get("/readyz").status;
    for (wrong, offset, status) in [("+1d", 86_400.0, 503), ("-5s", -5.0, 200)] {
        let node = start(&cluster, Some(wrong));
        eventually(PROPAGATION_TIME, "readiness", || ready(&node) == status);
        let page = Client::new(node.admin, None).get("/metrics");
        let text = String::from_utf8(page.body).expect("text");
        let gauge = "animal_store_clock_offset_seconds ";
        let line = text.lines().find_map(|line| line.strip_prefix(gauge));
        let value: f64 = line.expect("a gauge").parse().expect("a number");
        assert!((value - offset).abs() < 0.9, "{value}, and not {offset}");
        let warning = "the clock differs from the database's";
        eventually(PROPAGATION_TIME, "a warning", || {
            node.log().contains(warning)
        });
        // Several polls later there is no other.
        std::thread::sleep(Duration::from_millis(1_600));
        let rest = node.log();
        assert!(!rest.contains(warning), "{rest}");
    }
    for node in &cluster.nodes {
        assert_eq!(ready(node), 200);
        let log = node.log();
        assert!(!log.contains("the clock differs"), "{log}");
    }
}

#[test]
fn a_key_created_on_a_machine_a_day_ahead_is_dated_as_on_all_others() {
    let cluster = Cluster::start();
    let create = [
        "keys",
        "create",
        "--name",
        "late",
        "--plan",
        "free",
        "--expires",
        "12h",
    ];
    let key = command_ahead(&cluster, &create).stdout;
    let shown = json(&cluster, &["keys", "show", "1"]);
    let created = shown["createdAt"].as_str().expect("a time");
    assert!(created.starts_with(&today(&cluster)), "{shown}");
    let soon = "SELECT expires_at < extract(epoch FROM now()) * 1000 + 46800000 FROM api_keys";
    assert_eq!(cluster.postgres.psql("postgres", soon).trim(), "t");
    assert_eq!(list(&cluster.nodes[0].client(Some(key.trim()))).status, 200);
}

#[test]
fn the_date_over_http_1_follows_a_clock_that_is_set_back() {
    let folder = TempDir::new().expect("a folder");
    let shift = |by: &str| std::fs::write(folder.path().join("clock"), by).expect("a file");
    shift("+2h");
    let vars = [
        ("LD_PRELOAD", "/usr/$LIB/faketime/libfaketime.so.1"),
        ("FAKETIME_TIMESTAMP_FILE", "clock"),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    let process = Process::start(PROGRAM, folder.path(), &args, &vars);
    let client = process.client(None);
    // On the same connection, and so on the same thread.
    let mut connection = client.connect();
    let mut is_ahead_by = |seconds: i64| {
        let response = client.request("GET", "/livez").send_on(&mut connection);
        let date = response.header("date").expect("a date").to_owned();
        #[expect(clippy::disallowed_methods, reason = "the clock of the machine")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = i64::try_from(now.expect("a clock").as_secs()).expect("small");
        (-2..=1).any(|off| Timestamp::from_secs(now + seconds + off).http_date() == date)
    };
    assert!(is_ahead_by(2 * 60 * 60));
    shift("+0");
    eventually(Duration::from_secs(3), "the date", || is_ahead_by(0));
}
