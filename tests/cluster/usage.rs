//! The usage of keys in PostgreSQL is what was served, to the last request, whatever happens to the commits that store it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use harness::{StopOnDrop, eventually};

use crate::{Cluster, NODES};

/// The limit of the day. That of the minute is larger, so that headers show the day.
const DAY: u32 = 10_000_000;

/// The number of keys that are used concurrently.
const KEYS: usize = 4;

/// Requests by key.
type Usage = BTreeMap<i64, usize>;

/// The usage of all days in PostgreSQL.
fn stored(cluster: &Cluster) -> Usage {
    let sums = "select api_key_id, sum(requests) from usage_by_day group by api_key_id";
    let rows = cluster.postgres.psql("postgres", sums);
    let row = |row: &str| {
        let (key, requests) = row.split_once('|').expect("two columns");
        (
            key.parse().expect("a number"),
            requests.parse().expect("a number"),
        )
    };
    rows.lines().map(row).collect()
}

/// Lets clients list animals with [`KEYS`] keys on all nodes while something else happens. Returns the keys, and what was served.
fn served(cluster: &Cluster, happens: impl FnOnce()) -> (Vec<(i64, String)>, Usage) {
    let keys: Vec<_> = (0..KEYS).map(|_| cluster.key(DAY * 10, DAY)).collect();
    let (done, counts) = (
        AtomicBool::new(false),
        [const { AtomicUsize::new(0) }; KEYS],
    );
    std::thread::scope(|scope| {
        for ((_, key), count) in keys.iter().zip(&counts) {
            let (nodes, done) = (cluster.clients(key), &done);
            scope.spawn(move || {
                let mut connections: Vec<_> = nodes.iter().map(|node| node.connect()).collect();
                while !done.load(Ordering::Relaxed) {
                    for (node, connection) in nodes.iter().zip(&mut connections) {
                        let response = node.request("GET", "/v1/pets").send_on(connection);
                        assert!([200, 503].contains(&response.status), "{response}");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
        }
        let end = StopOnDrop(&done);
        happens();
        drop(end);
    });
    let counts = counts.map(AtomicUsize::into_inner);
    let served = keys.iter().zip(counts).map(|((id, _), count)| (*id, count));
    let served = served.collect();
    (keys, served)
}

/// Cuts connections to PostgreSQL this many times after COMMIT was sent. Nothing but usage is written meanwhile. Between two cuts
/// some commits are let through, so that batches are stored at the first try, at the second, or later.
fn cut(cluster: &Cluster, times: usize) {
    let before = cluster.proxy.cuts();
    for cut in 1..=times {
        cluster.proxy.cut_when_client_sends(b"COMMIT", 1);
        eventually(Duration::from_secs(20), "a cut", || {
            cluster.proxy.cuts() == before + cut
        });
        std::thread::sleep(Duration::from_millis(cut as u64 % 4 * 100));
    }
}

#[test]
fn the_stored_usage_equals_the_requests_served_although_a_hundred_commits_were_cut_off() {
    let cuts = if harness::is_long() { 1_000 } else { 100 };
    let mut cluster = Cluster::start();
    let (keys, served) = served(&cluster, || cut(&cluster, cuts));
    println!("{cuts} cuts, served {served:?}");
    eventually(Duration::from_secs(10), "all is stored", || {
        stored(&cluster)
            .iter()
            .zip(&served)
            .all(|(stored, served)| stored.1 >= served.1)
    });
    for node in &mut cluster.nodes {
        node.signal("TERM");
        assert_eq!(node.ends_within(Duration::from_secs(15)), Some(0));
    }
    assert_eq!(stored(&cluster), served);

    // Nodes that start send the same to an empty Redis.
    cluster.redis.cli(&["FLUSHALL"]);
    cluster.nodes = (0..NODES).map(|_| cluster.start_node()).collect();
    for (id, key) in &keys {
        for (before, node) in cluster.clients(key).iter().enumerate() {
            let (limit, left, _) = node.get("/v1/pets").rate();
            let used = usize::try_from(limit - left).expect("a number");
            assert_eq!((limit, used), (DAY.into(), served[id] + before + 1));
        }
    }
}

#[test]
fn the_same_check_catches_usage_that_is_stored_without_the_id_of_its_batch() {
    let cluster = Cluster::with_fault("no-usage-batch-id");
    let (_, served) = served(&cluster, || cut(&cluster, 10));
    eventually(Duration::from_secs(10), "more is stored", || {
        stored(&cluster).values().sum::<usize>() > served.values().sum()
    });
}

#[test]
fn the_last_usage_is_stored_at_shutdown_although_several_commits_are_cut_off() {
    let mut cluster = Cluster::start();
    let (_, served) = served(&cluster, || {
        cluster.proxy.cut_when_client_sends(b"COMMIT", 4 * NODES);
        eventually(Duration::from_secs(20), "a cut", || {
            cluster.proxy.cuts() > 0
        });
    });
    for node in &cluster.nodes {
        node.signal("TERM");
    }
    for node in &mut cluster.nodes {
        let code = node.ends_within(Duration::from_secs(15));
        assert_eq!(code, Some(0), "{}", node.log());
    }
    assert!(cluster.proxy.cuts() > NODES, "{}", cluster.proxy.cuts());
    assert_eq!(stored(&cluster), served);
}
