//! Redis late or gone: no client sees it but by limits that are wider for a while, and never wider than each node's own.

use std::time::{Duration, Instant};

use harness::eventually;

use crate::{Cluster, NODES, with_a_minute_of};

const LIMIT: u32 = 60;

/// How much longer a request may take because of Redis.
const LONGER: Duration = Duration::from_millis(60);

/// How soon after its return limits are exact again.
const EXACT_AGAIN: Duration = Duration::from_secs(2);

/// What clients measured.
struct Measured {
    admitted: usize,
    slowest_hundredth: Duration,
    slowest: Duration,
}

/// Sends so many requests to each node in turn, all with this key.
fn ask(cluster: &Cluster, key: &str, times: usize) -> Measured {
    let nodes = cluster.clients(key);
    let mut connections: Vec<_> = nodes.iter().map(|node| node.connect()).collect();
    let mut admitted = 0;
    let mut took = Vec::new();
    for _ in 0..times {
        for (node, connection) in nodes.iter().zip(&mut connections) {
            let began = Instant::now();
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

/// Whether every node reports this state of Redis. It is always ready.
fn all_report(cluster: &Cluster, word: &str) -> bool {
    cluster.nodes.iter().all(|node| {
        let response = node.client(None).get("/readyz?verbose");
        assert_eq!(response.status, 200, "{response}");
        response.json()["checks"]["redis"] == word
    })
}

/// Exactly the limit, for all nodes together.
fn assert_exact(cluster: &Cluster) {
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    with_a_minute_of(Duration::from_secs(10));
    assert_eq!(ask(cluster, &key, 40).admitted, LIMIT as usize);
}

fn survives(away: impl Fn(&Cluster), back: impl Fn(&Cluster)) {
    let cluster = Cluster::start();
    let large = cluster.large_key();
    let healthy = ask(&cluster, &large, 300);

    away(&cluster);
    let degraded = ask(&cluster, &large, 300);
    let allowed = healthy.slowest_hundredth + LONGER;
    assert!(
        degraded.slowest_hundredth <= allowed,
        "{:?}, and before {:?}",
        degraded.slowest_hundredth,
        healthy.slowest_hundredth
    );
    // On each node one request was the first to find Redis away. It waited no longer than it may; the rest is for a busy machine.
    assert!(
        degraded.slowest <= healthy.slowest + 5 * LONGER,
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
    // Each node goes on with its own counters.
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    with_a_minute_of(Duration::from_secs(10));
    assert_eq!(ask(&cluster, &key, 90).admitted, NODES * LIMIT as usize);

    back(&cluster);
    eventually(EXACT_AGAIN, "ready", || all_report(&cluster, "ready"));
    assert_exact(&cluster);
    for node in &cluster.nodes {
        let log = node.log();
        let lines = |what: &str| log.lines().filter(|line| line.contains(what)).count();
        assert_eq!(lines("Redis is slow or unavailable"), 1, "{log}");
    }
}

#[test]
fn redis_killed_and_started_again() {
    survives(
        |cluster| cluster.redis.kill(),
        |cluster| cluster.redis.start_again(),
    );
}

#[test]
fn redis_stalled_and_going_on() {
    survives(
        |cluster| cluster.redis.stall(),
        |cluster| cluster.redis.resume(),
    );
}

#[test]
fn redis_full_and_given_room_again() {
    survives(
        |cluster| drop(cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "1"])),
        |cluster| drop(cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "0"])),
    );
}

#[test]
fn one_full_node_of_a_redis_cluster_is_left_once_and_not_again_and_again() {
    let (cluster, [two, _three]) = Cluster::on_redis_cluster();
    // So many that every node of Redis has some.
    let keys: Vec<_> = (0..12).map(|_| cluster.large_key()).collect();
    let ask_all = || {
        for key in &keys {
            assert_eq!(ask(&cluster, key, 5).admitted, 5 * NODES);
        }
    };
    ask_all();
    assert!(all_report(&cluster, "ready"));

    two.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        ask_all();
    }
    assert!(all_report(&cluster, "degraded"));
    for node in 0..NODES {
        let falls = cluster.metric(node, "animal_store_redis_outages_total");
        assert_eq!(falls, "1", "{}", cluster.nodes[node].log());
    }
    two.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually(EXACT_AGAIN, "ready", || all_report(&cluster, "ready"));
}

#[test]
fn a_script_that_redis_forgets_all_the_time_is_not_noticed() {
    let cluster = Cluster::start();
    std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let redis = &cluster.redis;
        scope.spawn(move || {
            // Until the other end is gone, however that comes.
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
    let cluster = Cluster::start();
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    with_a_minute_of(Duration::from_secs(15));
    assert_eq!(ask(&cluster, &key, 40).admitted, LIMIT as usize);
    cluster.redis.cli(&["FLUSHALL"]);
    assert_eq!(ask(&cluster, &key, 40).admitted, 0);
}

#[test]
fn what_others_have_put_in_the_place_of_a_key_is_written_over() {
    let cluster = Cluster::start();
    let (id, key) = cluster.key(LIMIT, 1_000_000);
    let deployment = cluster
        .postgres
        .psql("postgres", "SELECT id FROM deployment");
    let name = format!("animal-store:{deployment}:{{{id}}}");
    with_a_minute_of(Duration::from_secs(15));
    for foreign in [["SET", &name, "rex"].as_slice(), &["HSET", &name, "a", "b"]] {
        assert!(ask(&cluster, &key, 5).admitted > 0);
        cluster.redis.cli(&["DEL", &name]);
        cluster.redis.cli(foreign);
    }
    // Each node tells what it last heard, which may lack what the others asked since.
    let rest = ask(&cluster, &key, 40).admitted;
    assert!((30..LIMIT as usize).contains(&rest), "{rest}");
    assert_eq!(ask(&cluster, &key, 10).admitted, 0);
    assert_eq!(cluster.metric(0, "animal_store_redis_outages_total"), "0");
}

#[test]
fn two_deployments_on_one_redis_do_not_touch_each_others_keys() {
    let cluster = Cluster::start();
    let database = cluster.postgres.create_database("other");
    let other = cluster.start_node_on(&database);
    let words = [
        "keys",
        "create",
        "--name",
        "a",
        "--plan",
        "free",
        "--database",
    ];
    let words = [&words[..], &[&database]].concat();
    let made = harness::run(crate::PROGRAM, cluster.folder.path(), &words).exits(0);
    let there = other.client(Some(made.stdout.trim()));
    // Both deployments call their first key 1.
    let (id, here) = cluster.key(LIMIT, 1_000_000);
    assert_eq!(id, 1);
    with_a_minute_of(Duration::from_secs(15));
    let asked = ask(&cluster, &here, 80);
    assert_eq!(asked.admitted, LIMIT as usize);
    let banned = cluster.nodes[0].client(Some(&here)).get("/v1/pets");
    banned.is_error(429, "key_banned");
    let response = there.get("/v1/pets");
    assert_eq!(
        (response.status, response.rate().1),
        (200, 59),
        "{response}"
    );
    // On a cluster of Redis, the ID alone decides where the counters are.
    let names = cluster.redis.cli(&["KEYS", "animal-store:*:{1}"]);
    assert_eq!(names.lines().count(), 2, "{names}");
}

#[test]
fn a_node_without_redis_warns_that_it_counts_separately() {
    let cluster = Cluster::start();
    let words = ["--no-first-key", "--database", &cluster.postgres.url()];
    let node = harness::Process::serve(crate::PROGRAM, cluster.folder.path(), &words);
    eventually(Duration::from_secs(1), "a warning", || {
        node.log()
            .contains("without --redis each node counts separately")
    });
}
