//! Redis slow or unavailable: clients notice only that limits are temporarily wider, and never wider than those of each node alone.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harness::{Client, Redis, Stopwatch, eventually};

use crate::{Cluster, NODES, ensure_minute_left};

pub(crate) const LIMIT: u32 = 60;

/// How much longer a request may take because of Redis.
const MAX_DELAY: Duration = Duration::from_millis(60);

/// How soon after the end of an outage limits are exact again.
pub(crate) const RECOVERY_TIME: Duration = Duration::from_secs(2);

/// What clients measured.
pub(crate) struct Measured {
    pub(crate) admitted: usize,
    slowest_hundredth: Duration,
    slowest: Duration,
}

/// Sends this many requests to each node in turn, all with this key.
pub(crate) fn send(cluster: &Cluster, key: &str, times: usize) -> Measured {
    send_to(&cluster.clients(key), times)
}

pub(crate) fn send_to(nodes: &[Client], times: usize) -> Measured {
    let mut connections: Vec<_> = nodes.iter().map(|node| node.connect()).collect();
    let mut admitted = 0;
    let mut took = Vec::new();
    for _ in 0..times {
        for (node, connection) in nodes.iter().zip(&mut connections) {
            let began = Stopwatch::start();
            let response = node.request("GET", "/v1/pets").send_on(connection);
            took.push(began.elapsed());
            match response.status {
                200 => admitted += 1,
                429 => {}
                _ => panic!("{response}"),
            }
        }
    }
    took.sort();
    Measured {
        admitted,
        slowest_hundredth: took[took.len() * 99 / 100],
        slowest: took[took.len() - 1],
    }
}

/// Whether every node reports this state of Redis. The nodes themselves are always ready.
pub(crate) fn all_report(cluster: &Cluster, state: &str) -> bool {
    cluster.nodes.iter().all(|node| {
        let response = node.client(None).get("/readyz?verbose");
        assert_eq!(response.status, 200, "{response}");
        response.json()["checks"]["redis"] == state
    })
}

/// Exactly the limit, for all nodes together.
pub(crate) fn assert_exact(cluster: &Cluster) {
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    ensure_minute_left(Duration::from_secs(10));
    assert_eq!(send(cluster, &key, 40).admitted, LIMIT as usize);
}

#[test]
fn a_request_takes_one_round_trip_to_redis() {
    let cluster = Cluster::start();
    let large = cluster.large_key();
    // Prepares what is needed once for each connection.
    send(&cluster, &large, 20);
    // How often Redis has read from a connection.
    let reads = || {
        let stats = cluster.redis.cli(&["INFO", "stats"]);
        let count = stats
            .lines()
            .find_map(|line| line.strip_prefix("total_reads_processed:"));
        count
            .expect("a count")
            .trim()
            .parse::<usize>()
            .expect("a number")
    };
    let before = reads();
    send(&cluster, &large, 200);
    let reads = reads() - before;
    let requests = 200 * NODES;
    assert!(
        (requests..requests * 3 / 2).contains(&reads),
        "{reads} reads"
    );
}

fn survives(fail: impl Fn(&Cluster), recover: impl Fn(&Cluster)) {
    let cluster = Cluster::start();
    let large = cluster.large_key();
    let healthy = send(&cluster, &large, 300);

    fail(&cluster);
    let degraded = send(&cluster, &large, 300);
    let allowed = healthy.slowest_hundredth + MAX_DELAY;
    assert!(
        degraded.slowest_hundredth <= allowed,
        "{:?}, and before {:?}",
        degraded.slowest_hundredth,
        healthy.slowest_hundredth
    );
    // On each node one request was the first to notice the outage. It may wait for MAX_DELAY; the factor
    // of 5 is for a busy machine.
    assert!(
        degraded.slowest <= healthy.slowest + 5 * MAX_DELAY,
        "{:?}",
        degraded.slowest
    );
    assert_eq!(
        (healthy.admitted, degraded.admitted),
        (300 * NODES, 300 * NODES)
    );
    eventually(Duration::from_secs(1), "degraded", || {
        all_report(&cluster, "degraded")
    });
    assert_eq!(cluster.metric(0, "animal_store_redis_up"), "0");
    // Each node continues with its own counters.
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    ensure_minute_left(Duration::from_secs(10));
    assert_eq!(send(&cluster, &key, 90).admitted, NODES * LIMIT as usize);

    recover(&cluster);
    eventually(RECOVERY_TIME, "ready", || all_report(&cluster, "ready"));
    assert_exact(&cluster);
    for node in &cluster.nodes {
        let log = node.log();
        let lines = |what: &str| log.lines().filter(|line| line.contains(what)).count();
        assert_eq!(lines("Redis is slow or unavailable"), 1, "{log}");
    }
}

#[test]
fn requests_stay_fast_while_redis_is_killed_and_limits_are_exact_again_afterwards() {
    survives(
        |cluster| cluster.redis.kill(),
        |cluster| cluster.redis.start_again(),
    );
}

#[test]
fn requests_stay_fast_while_redis_is_stalled_and_limits_are_exact_again_afterwards() {
    survives(
        |cluster| cluster.redis.stall(),
        |cluster| cluster.redis.resume(),
    );
}

#[test]
fn requests_stay_fast_while_redis_is_full_and_limits_are_exact_again_afterwards() {
    survives(
        |cluster| drop(cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "1"])),
        |cluster| drop(cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "0"])),
    );
}

/// One connection to Redis, which still works when no other is accepted.
struct RedisSession(BufReader<TcpStream>);

impl RedisSession {
    fn start(redis: &Redis) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", redis.port())).expect("a connection");
        Self(BufReader::new(stream))
    }

    /// Sends a command whose reply is one line.
    fn run(&mut self, command: &str) -> String {
        let stream = self.0.get_mut();
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .expect("sent");
        let mut reply = String::new();
        self.0.read_line(&mut reply).expect("a reply");
        assert!(!reply.starts_with('-'), "{command}: {reply}");
        reply
    }
}

/// Kills one worker's connection to Redis, and makes Redis accept no new one until the returned session raises `maxclients`.
fn kill_one_connection(cluster: &Cluster) -> RedisSession {
    let clients = cluster.redis.cli(&["CLIENT", "LIST", "TYPE", "NORMAL"]);
    let is_worker = |line: &&str| line.contains("cmd=ping") || line.contains("cmd=evalsha");
    let worker = clients.lines().find(is_worker).expect("a worker");
    let id = worker.strip_prefix("id=").expect("an ID");
    let id = id.split(' ').next().expect("an ID");
    let mut session = RedisSession::start(&cluster.redis);
    session.run("CONFIG SET maxclients 1");
    session.run(&format!("CLIENT KILL ID {id}"));
    session
}

#[test]
fn a_node_of_which_one_worker_loses_redis_admits_no_more_than_its_limit() {
    const CLIENTS: usize = 24;
    const LIMIT: usize = 2_000;
    let mut cluster = Cluster::start();
    // The connection is one of the first node's.
    cluster.nodes.truncate(1);
    let (_, key) = cluster.key(LIMIT as u32, 1_000_000);
    let client = &cluster.clients(&key)[0];
    ensure_minute_left(Duration::from_secs(15));
    let admitted = AtomicUsize::new(0);
    let mut session = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = client.connect();
                for _ in 0..2 * LIMIT / CLIENTS {
                    let response = client.request("GET", "/v1/pets").send_on(&mut connection);
                    let is_admitted = response.status == 200;
                    admitted.fetch_add(is_admitted.into(), Ordering::Relaxed);
                }
            });
        }
        eventually(Duration::from_secs(5), "load", || {
            admitted.load(Ordering::Relaxed) > LIMIT / 10
        });
        kill_one_connection(&cluster)
    });
    assert_eq!(cluster.metric(0, "animal_store_redis_up"), "0");
    let admitted = admitted.into_inner();
    // Requests whose reply was lost count in Redis and again on the node.
    assert!((LIMIT - CLIENTS..=LIMIT).contains(&admitted), "{admitted}");
    session.run("CONFIG SET maxclients 1000");
    eventually(RECOVERY_TIME, "ready", || all_report(&cluster, "ready"));
}

#[test]
fn clients_do_not_notice_that_redis_loses_the_script_all_the_time() {
    let cluster = Cluster::start_with_long_redis_timeout();
    std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let redis = &cluster.redis;
        scope.spawn(move || {
            // Until the other end is dropped, also by a panic.
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                redis.cli(&["SCRIPT", "FLUSH"]);
            }
        });
        for _ in 0..5 {
            assert_exact(&cluster);
        }
        drop(stop);
    });
    assert!(all_report(&cluster, "ready"));
    assert_eq!(cluster.metric(0, "animal_store_redis_outages_total"), "0");
}

#[test]
fn a_redis_that_forgot_everything_learns_from_the_nodes_what_was_used() {
    let cluster = Cluster::start_with_long_redis_timeout();
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    ensure_minute_left(Duration::from_secs(15));
    assert_eq!(send(&cluster, &key, 40).admitted, LIMIT as usize);
    cluster.redis.cli(&["FLUSHALL"]);
    assert_eq!(send(&cluster, &key, 40).admitted, 0);
}

#[test]
fn foreign_values_under_the_name_of_a_key_are_overwritten() {
    let cluster = Cluster::start_with_long_redis_timeout();
    let (id, key) = cluster.key(LIMIT, 1_000_000);
    ensure_minute_left(Duration::from_secs(15));
    for foreign in [["SET", "rex"].as_slice(), &["HSET", "a", "b"]] {
        assert!(send(&cluster, &key, 5).admitted > 0);
        let names = cluster
            .redis
            .cli(&["KEYS", &format!("animal-store:*:{{{id}}}:[0-9]*")]);
        let [name] = names.lines().collect::<Vec<_>>()[..] else {
            panic!("not one name: {names}");
        };
        cluster.redis.cli(&["DEL", name]);
        let (command, arguments) = foreign.split_first().expect("a command");
        cluster.redis.cli(&[&[command, name], arguments].concat());
    }
    // Each node sends the counts that it last received, which may lack requests to the others since.
    let rest = send(&cluster, &key, 40).admitted;
    assert!((30..LIMIT as usize).contains(&rest), "{rest}");
    assert_eq!(send(&cluster, &key, 10).admitted, 0);
    assert_eq!(cluster.metric(0, "animal_store_redis_outages_total"), "0");
}

#[test]
fn two_deployments_on_one_redis_do_not_touch_each_others_keys() {
    let cluster = Cluster::start_with_long_redis_timeout();
    let database = cluster.postgres.create_database("other");
    let other = cluster.start_node_on(&database);
    let args = [
        "keys",
        "create",
        "--name",
        "a",
        "--plan",
        "free",
        "--database",
    ];
    let args = [&args[..], &[&database]].concat();
    let made = harness::run(crate::PROGRAM, cluster.folder.path(), &args).exits(0);
    let there = other.client(Some(made.stdout.trim()));
    // Both deployments call their first key 1.
    let (id, here) = cluster.key(LIMIT, 1_000_000);
    assert_eq!(id, 1);
    ensure_minute_left(Duration::from_secs(15));
    let sent = send(&cluster, &here, 80);
    assert_eq!(sent.admitted, LIMIT as usize);
    let banned = cluster.nodes[0].client(Some(&here)).get("/v1/pets");
    banned.is_error(429, "key_banned");
    let response = there.get("/v1/pets");
    assert_eq!(
        (response.status, response.rate().1),
        (200, 59),
        "{response}"
    );
    // On a cluster of Redis, the ID alone decides where the counters are.
    let names = cluster.redis.cli(&["KEYS", "animal-store:*:{1}:[0-9]*"]);
    assert_eq!(names.lines().count(), 2, "{names}");
}

#[test]
fn a_node_without_redis_warns_that_it_counts_separately() {
    let cluster = Cluster::start();
    let args = ["--no-first-key", "--database", &cluster.postgres.url()];
    let node = harness::Process::serve(crate::PROGRAM, cluster.folder.path(), &args);
    eventually(Duration::from_secs(1), "a warning", || {
        node.log()
            .contains("without --redis each node counts separately")
    });
}
