//! Limits hold for all nodes together: never one request more, never one less.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{Client, Connection, Response, eventually};

use crate::{Cluster, ensure_minute_left};

/// Clients that send at once.
const CLIENTS: usize = 64;

/// Requests that a key may make in a minute.
const LIMIT: u32 = 200;

/// Windows that are exhausted. Each is that of another key, so that only one test has to wait for minutes to end.
const WINDOWS: usize = 10;

/// How many requests were admitted in each of this many windows. One during which Redis was too slow for a node, because this
/// machine was busy, proves nothing, and is repeated with another key.
fn windows(cluster: &Cluster, count: usize) -> Vec<usize> {
    let mut windows = Vec::new();
    for _ in 0..count + 20 {
        let before = outages(cluster);
        let admitted = admitted(cluster);
        if before == outages(cluster) {
            windows.push(admitted);
        }
        if windows.len() == count {
            return windows;
        }
        eventually(Duration::from_secs(5), "Redis is available", || {
            (0..cluster.nodes.len())
                .all(|node| cluster.metric(node, "animal_store_redis_up") == "1")
        });
    }
    panic!("Redis is too slow all the time: {:?}", outages(cluster));
}

/// How many outages of Redis each node has seen.
fn outages(cluster: &Cluster) -> Vec<String> {
    let nodes = 0..cluster.nodes.len();
    nodes
        .map(|node| cluster.metric(node, "animal_store_redis_outages_total"))
        .collect()
}

/// Sends a request that counts, and for which PostgreSQL is queried only while the node does not know the key. If that takes too long,
/// because this machine is busy, nothing was counted, and it is sent again.
fn send(node: &Client, connection: &mut Connection) -> Response {
    let began = Instant::now();
    loop {
        let response = node.request("GET", "/v1/nothing").send_on(connection);
        if response.status != 503 {
            return response;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{response}");
    }
}

/// Exhausts the window of a new key over all nodes, and returns how many requests were admitted.
fn admitted(cluster: &Cluster) -> usize {
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    ensure_minute_left(Duration::from_secs(15));
    let nodes = cluster.clients(&key);
    let admitted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (node, admitted) = (&nodes[client % nodes.len()], &admitted);
            scope.spawn(move || {
                let mut connection = node.connect();
                for _ in 0..2 * LIMIT as usize / CLIENTS {
                    let response = send(node, &mut connection);
                    match response.status {
                        404 => drop(admitted.fetch_add(1, Ordering::Relaxed)),
                        429 => {}
                        _ => panic!("{response}"),
                    }
                }
            });
        }
    });
    admitted.into_inner()
}

/// How many requests of one key were admitted in each of this many minutes, one after the other. Clients wait for `Retry-After`, so
/// all of them come back with the new minute at once.
fn minutes(cluster: &Cluster, count: usize) -> Vec<usize> {
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    let nodes = cluster.clients(&key);
    let admitted = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (node, admitted) = (&nodes[client % nodes.len()], &admitted);
            scope.spawn(move || {
                let mut connection = node.connect();
                loop {
                    let response = send(node, &mut connection);
                    let end = response.rate().2;
                    let mut admitted = admitted.lock().expect("a count");
                    match response.status {
                        404 => *admitted.entry(end).or_default() += 1,
                        429 if admitted.len() >= count => return,
                        429 => {
                            drop(admitted);
                            let seconds = response.number("retry-after").unsigned_abs();
                            std::thread::sleep(Duration::from_secs(seconds));
                            connection = node.connect();
                        }
                        _ => panic!("{response}"),
                    }
                }
            });
        }
    });
    let admitted = admitted.into_inner().expect("a count");
    admitted.into_values().collect()
}

#[test]
fn limits_stay_exact_from_minute_to_minute() {
    let count = if harness::is_long() { WINDOWS } else { 2 };
    let cluster = Cluster::start_with_long_redis_timeout();
    for _ in 0..3 {
        let before = outages(&cluster);
        // Enough of the first minute to exhaust it.
        ensure_minute_left(Duration::from_secs(5));
        let admitted = minutes(&cluster, count);
        if before == outages(&cluster) {
            assert_eq!(admitted, vec![LIMIT as usize; count]);
            return;
        }
    }
    panic!("Redis is too slow all the time: {:?}", outages(&cluster));
}

#[test]
fn three_nodes_admit_exactly_the_limit_together() {
    let cluster = Cluster::start();
    assert_eq!(windows(&cluster, WINDOWS), [LIMIT as usize; WINDOWS]);
    assert_every_key_expires(&cluster);
}

#[test]
fn a_cluster_of_redis_divides_the_keys_among_its_nodes_and_limits_stay_exact() {
    let (cluster, [two, three]) = Cluster::on_redis_cluster();
    assert_eq!(windows(&cluster, WINDOWS), [LIMIT as usize; WINDOWS]);
    let sizes = [&cluster.redis, &two, &three].map(|redis| redis.cli(&["DBSIZE"]));
    assert!(sizes.iter().all(|size| size != "0"), "{sizes:?}");
}

#[test]
fn the_same_check_catches_counters_that_are_read_and_then_written() {
    let cluster = Cluster::with_fault("read-then-write");
    let windows = windows(&cluster, 3);
    assert!(
        windows.iter().any(|admitted| *admitted > LIMIT as usize),
        "{windows:?}"
    );
}

/// None of the names in Redis stays there permanently.
fn assert_every_key_expires(cluster: &Cluster) {
    let names = cluster.redis.cli(&["KEYS", "*"]);
    assert!(names.lines().count() >= WINDOWS, "{names}");
    for name in names.lines() {
        let left: i64 = cluster
            .redis
            .cli(&["PTTL", name])
            .trim()
            .parse()
            .expect("a number");
        assert!((1..=2 * 86_400_000).contains(&left), "{name}: {left}");
    }
}
