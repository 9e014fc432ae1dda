//! Redis Cluster: failures of one of its nodes, and lost replies.

use std::time::{Duration, Instant};

use harness::{Proxy, Redis, eventually};

use crate::redis::{LIMIT, RECOVERY_TIME, all_report, send, send_to};
use crate::{Cluster, NODES, ensure_minute_left};

#[test]
fn one_full_node_of_a_redis_cluster_is_one_outage_and_not_many() {
    let (cluster, [two, _three]) = Cluster::on_redis_cluster();
    // Enough that every node of Redis has some.
    let keys: Vec<_> = (0..12)
        .map(|_| cluster.clients(&cluster.large_key()))
        .collect();
    // All at once: requests for keys on the other nodes are in flight when one fails.
    let send_all = || {
        std::thread::scope(|scope| {
            for nodes in &keys {
                scope.spawn(|| assert_eq!(send_to(nodes, 5).admitted, 5 * NODES));
            }
        });
    };
    send_all();
    assert!(all_report(&cluster, "ready"));

    two.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        send_all();
    }
    assert!(all_report(&cluster, "degraded"));
    for node in 0..NODES {
        let outages = cluster.metric(node, "animal_store_redis_outages_total");
        assert_eq!(outages, "1", "{}", cluster.nodes[node].log());
    }
    two.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually(RECOVERY_TIME, "ready", || all_report(&cluster, "ready"));
}

/// Waits until each of these Redis nodes lists all these ports in its reply to CLUSTER SLOTS.
fn wait_until_listed(shards: &[&Redis], ports: &[u16]) {
    eventually(Duration::from_secs(10), "the ports are listed", || {
        shards.iter().all(|redis| {
            let slots = redis.cli(&["CLUSTER", "SLOTS"]);
            ports.iter().all(|port| slots.contains(&port.to_string()))
        })
    });
}

#[test]
fn a_replica_of_a_redis_cluster_that_hangs_does_not_delay_recovery() {
    let (cluster, [two, three]) = Cluster::on_redis_cluster();
    let replica = two.add_replica();
    let key = cluster.large_key();
    let shards = [&cluster.redis, &two, &three];
    wait_until_listed(&shards, &[replica.port()]);
    replica.stall();
    shards.iter().for_each(|redis| redis.stall());
    eventually(Duration::from_secs(5), "degraded", || {
        all_report(&cluster, "degraded")
    });
    shards.iter().for_each(|redis| redis.resume());
    eventually(RECOVERY_TIME, "ready", || all_report(&cluster, "ready"));
    assert_eq!(send(&cluster, &key, 5).admitted, 5 * NODES);
}

#[test]
fn a_request_whose_reply_a_redis_cluster_lost_is_counted_once() {
    let shards = Redis::cluster();
    let proxies = shards.each_ref().map(|redis| {
        let proxy = Proxy::to(([127, 0, 0, 1], redis.port()).into());
        let port = proxy.port().to_string();
        redis.cli(&["CONFIG", "SET", "cluster-announce-port", &port]);
        proxy
    });
    let ports = proxies.each_ref().map(Proxy::port);
    wait_until_listed(&shards.each_ref(), &ports);
    let (cluster, _others) = Cluster::on_shards(shards, ports);
    let (_, key) = cluster.key(LIMIT, 1_000_000);
    let client = &cluster.clients(&key)[0];
    ensure_minute_left(Duration::from_secs(15));
    let left = || client.get("/v1/pets").rate().1;
    assert_eq!(left(), i64::from(LIMIT) - 1);
    for sent in (2..8).step_by(2) {
        for proxy in &proxies {
            proxy.cut_when_client_sends(b"EVALSHA", 1);
        }
        assert_eq!(left(), i64::from(LIMIT) - sent);
        assert_eq!(
            proxies.iter().map(Proxy::cuts).sum::<usize>(),
            sent as usize / 2
        );
        eventually(RECOVERY_TIME, "Redis is available", || {
            cluster.metric(0, "animal_store_redis_up") == "1"
        });
        assert_eq!(left(), i64::from(LIMIT) - sent - 1);
    }
}
