//! PostgreSQL slow, down or replaced: acknowledged animals stay, no request waits long, and every node recovers soon after.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use harness::{Postgres, StopOnDrop, Stopwatch, eventually};

use crate::changes::eventually_on_all;
use crate::{Cluster, Load, NODES, lost_and_duplicated, rex};

/// Clients that create at once.
const CLIENTS: usize = 12;

/// How soon after PostgreSQL is back a node creates animals again.
const RECOVERY_TIME: Duration = Duration::from_secs(5);

/// How soon after it was promoted a standby is found.
pub(crate) const FAILOVER_TIME: Duration = Duration::from_secs(10);

/// The longest wait for a response.
const LONGEST: Duration = Duration::from_millis(2_500);

/// How much more memory a node may use because PostgreSQL does not respond, in KiB.
const MORE_MEMORY: u64 = 32 * 1024;

/// How many more files and sockets a node may have open because PostgreSQL does not respond.
const MORE_FILES: u64 = 64;

#[test]
fn acknowledged_animals_survive_immediate_restarts_under_load() {
    let restarts = if harness::is_long() { 50 } else { 10 };
    let cluster = Cluster::start();
    // With this default, a session that does not set synchronous_commit itself acknowledges a commit before it is on disk.
    for sql in [
        "alter system set synchronous_commit = off",
        "select pg_reload_conf()",
    ] {
        cluster.postgres.psql("postgres", sql);
    }
    let load = Load::new(cluster.clients(&cluster.large_key()));
    let mut back = Vec::new();
    let made = load.during(CLIENTS, || {
        for _ in 0..restarts {
            std::thread::sleep(Duration::from_millis(300));
            cluster.postgres.restart_immediately();
            back.push(until_every_node_creates(&load, RECOVERY_TIME));
        }
    });
    let (lost, duplicated) = lost_and_duplicated(&cluster.postgres, &made);
    let retried = made.iter().filter(|made| !made.failures.is_empty()).count();
    let figures = format!("{} animals, {retried} retried, back {back:?}", made.len());
    println!("{figures}");
    assert!(
        lost.is_empty() && duplicated.is_empty(),
        "{figures}, lost: {lost:#?}, duplicated: {duplicated:#?}"
    );
    assert!(
        retried >= restarts && made.len() > 20 * restarts,
        "hardly any load: {figures}"
    );
}

#[test]
fn a_standby_that_is_promoted_is_found_by_every_node() {
    fail_over(Postgres::stop_immediately);
}

#[test]
fn a_standby_is_found_while_the_server_before_it_still_accepts_connections_but_does_not_respond() {
    fail_over(Postgres::stall);
}

#[test]
fn nodes_forget_what_is_lost_without_an_outage() {
    let cluster = Cluster::start();
    let (lost, lost_secret) = cluster.key(100_000, 1_000_000);
    let (_, kept) = cluster.key(100_000, 1_000_000);
    let (last, last_secret) = cluster.key(100_000, 1_000_000);
    for secret in [&lost_secret, &last_secret] {
        for node in cluster.clients(secret) {
            assert_eq!(node.get("/v1/pets").status, 200);
        }
    }
    // Where this has taken effect, the node has polled all changes; the revision that it has read may be the one before.
    cluster.command(&["keys", "revoke", &last.to_string()]);
    eventually_on_all("the revocation", &cluster.clients(&last_secret), |node| {
        node.get("/v1/pets").status == 401
    });
    let lose = "update revisions set number = number - 2 where what = 'api_keys'";
    let lose = format!("begin; delete from api_keys where id = {lost}; {lose}; commit");
    cluster.postgres.psql("postgres", &lose);
    eventually_on_all("the loss", &cluster.clients(&lost_secret), |node| {
        node.get("/v1/pets").status == 401
    });
    for node in cluster.clients(&kept) {
        assert_eq!(node.get("/v1/pets").status, 200);
    }
}

/// A standby, and nodes that know both servers.
pub(crate) fn add_standby(cluster: &mut Cluster) -> Postgres {
    let standby = cluster.postgres.standby();
    let both = format!(
        "postgres://animals@127.0.0.1:{},127.0.0.1:{}/postgres",
        cluster.postgres.port(),
        standby.port()
    );
    cluster.nodes = (0..NODES).map(|_| cluster.start_node_on(&both)).collect();
    standby
}

/// Makes the first server fail under load, and its standby take over.
fn fail_over(fail: impl FnOnce(&Postgres)) {
    let mut cluster = Cluster::start();
    let standby = add_standby(&mut cluster);
    let load = Load::new(cluster.clients(&cluster.large_key()));
    let mut found = Duration::ZERO;
    let made = load.during(CLIENTS, || {
        std::thread::sleep(Duration::from_secs(1));
        fail(&cluster.postgres);
        std::thread::sleep(Duration::from_secs(1));
        let promoted = Instant::now();
        standby.promote();
        until_every_node_creates(&load, FAILOVER_TIME);
        found = promoted.elapsed();
        std::thread::sleep(Duration::from_millis(500));
    });
    let (lost, duplicated) = lost_and_duplicated(&standby, &made);
    let retried = made.iter().filter(|made| !made.failures.is_empty()).count();
    let figures = format!("{} animals, {retried} retried, found {found:?}", made.len());
    println!("{figures}");
    assert!(
        lost.is_empty() && duplicated.is_empty(),
        "{figures}, lost: {lost:#?}, duplicated: {duplicated:#?}"
    );
    assert!(
        retried >= NODES && made.len() > 100,
        "hardly any load: {figures}"
    );
}

/// How long it takes from now until each node has created an animal.
fn until_every_node_creates(load: &Load, timeout: Duration) -> Duration {
    let created = || load.created.each_ref().map(|it| it.load(Ordering::Relaxed));
    let (began, before) = (Instant::now(), created());
    eventually(timeout, "an animal by each node", || {
        created()
            .iter()
            .zip(before)
            .all(|(now, before)| *now > before)
    });
    began.elapsed()
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Creation,
    Uncached,
    Cached,
}

/// One response.
#[derive(Debug)]
struct TimedResponse {
    kind: Kind,
    sent: Instant,
    received: Instant,
    took: Duration,
    status: u16,
}

/// A period in which PostgreSQL did not respond.
struct Stall {
    began: Instant,
    ended: Instant,
    responses: Vec<TimedResponse>,
    /// The largest increase of a node's usage: kilobytes, and open files.
    memory: u64,
    files: u64,
    /// How long after its end every node created animals.
    back: Duration,
}

/// Sends requests of all kinds while PostgreSQL does not respond for this long.
fn stall(cluster: &Cluster, lasts: Duration) -> Stall {
    let nodes = &cluster.clients(&cluster.large_key())[..];
    nodes[0].create_many(150);
    for node in nodes {
        node.get("/v1/pets?limit=100");
        node.get("/v1/pets/1");
    }
    // Animals that do not exist, and empty lists: neither is cached.
    let uncached = &[
        "/v1/pets/999999999",
        "/v1/pets?status=sold",
        "/v1/store/orders",
    ][..];
    let cached = &["/v1/pets?limit=100", "/v1/pets/1"][..];
    let responses = &Mutex::new(Vec::new());
    let (done, created) = (
        &AtomicBool::new(false),
        &[const { AtomicUsize::new(0) }; NODES],
    );
    let send = move |kind: Kind, node: usize, targets: &[&str]| {
        let mut connection = nodes[node].connect();
        for turn in 0.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            let (sent, watch) = (Instant::now(), Stopwatch::start());
            let request = match kind {
                Kind::Creation => nodes[node].request("POST", "/v1/pets").json(&rex()),
                _ => nodes[node].request("GET", targets[turn % targets.len()]),
            };
            let response = request.send_on(&mut connection);
            let seen = TimedResponse {
                kind,
                sent,
                received: Instant::now(),
                took: watch.elapsed(),
                status: response.status,
            };
            match response.status {
                201 => drop(created[node].fetch_add(1, Ordering::Relaxed)),
                503 => drop(response.is_error(503, "unavailable").number("retry-after")),
                _ => {}
            }
            let mut responses = responses.lock().unwrap_or_else(PoisonError::into_inner);
            responses.push(seen);
            drop(responses);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let (began, ended, memory, files, back) = std::thread::scope(|scope| {
        for node in 0..NODES {
            for _ in 0..16 {
                scope.spawn(move || send(Kind::Creation, node, &[]));
                scope.spawn(move || send(Kind::Uncached, node, uncached));
            }
            scope.spawn(move || send(Kind::Cached, node, cached));
        }
        let end = StopOnDrop(done);
        std::thread::sleep(Duration::from_secs(2));
        let before: Vec<_> = cluster.nodes.iter().map(|node| uses(node.id())).collect();
        cluster.postgres.stall();
        let began = Instant::now();
        let (mut memory, mut files) = (0, 0);
        while began.elapsed() < lasts {
            std::thread::sleep(Duration::from_millis(250));
            for (node, before) in cluster.nodes.iter().zip(&before) {
                let now = uses(node.id());
                memory = memory.max(now.0.saturating_sub(before.0));
                files = files.max(now.1.saturating_sub(before.1));
            }
        }
        let ended = Instant::now();
        cluster.postgres.resume();
        let read = || created.each_ref().map(|it| it.load(Ordering::Relaxed));
        let before = read();
        eventually(RECOVERY_TIME, "an animal by each node", || {
            read().iter().zip(before).all(|(now, before)| *now > before)
        });
        let back = ended.elapsed();
        drop(end);
        (began, ended, memory, files, back)
    });
    let mut responses = responses.lock().unwrap_or_else(PoisonError::into_inner);
    Stall {
        began,
        ended,
        responses: std::mem::take(&mut responses),
        memory,
        files,
        back,
    }
}

/// Kilobytes in memory, and files and sockets that are open.
fn uses(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("a process");
    let kilobytes = kilobytes.and_then(|text| text.parse().ok());
    (kilobytes.expect("a number"), files.count() as u64)
}

#[test]
fn requests_do_not_wait_for_a_stalled_postgresql_and_cached_data_is_served() {
    let cluster = Cluster::start();
    let stall = stall(&cluster, Duration::from_secs(20));
    let slowest = stall.responses.iter().max_by_key(|seen| seen.took);
    let slowest = slowest.expect("a response");
    let during = stall
        .responses
        .iter()
        .filter(|seen| seen.sent > stall.began && seen.received < stall.ended);
    let count = |kind: Kind, status: u16| {
        let those = during.clone().filter(|seen| seen.kind == kind);
        let all = those.clone().count();
        (those.filter(|seen| seen.status == status).count(), all)
    };
    let creations = count(Kind::Creation, 503);
    let uncached = count(Kind::Uncached, 503);
    let cached = count(Kind::Cached, 200);
    let figures = format!(
        "{} responses, of them in the stall {creations:?} creations and {uncached:?} reads with 503, {cached:?} cached with \
         200; slowest {slowest:?}; {} KB and {} files more; back after {:?}",
        stall.responses.len(),
        stall.memory,
        stall.files,
        stall.back
    );
    println!("{figures}");
    assert!(slowest.took <= LONGEST, "{figures}");
    for (right, all) in [creations, uncached, cached] {
        assert!(right == all && all > 100, "{figures}");
    }
    assert!(stall.memory < MORE_MEMORY, "{figures}");
    assert!(stall.files < MORE_FILES, "{figures}");
}

#[test]
fn the_same_check_catches_a_node_without_timeouts() {
    let cluster = Cluster::with_fault("no-timeouts");
    let stall = stall(&cluster, Duration::from_secs(5));
    let slowest = stall.responses.iter().map(|seen| seen.took).max();
    println!("{slowest:?}");
    assert!(slowest > Some(LONGEST), "{slowest:?}");
}
