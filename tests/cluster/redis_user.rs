//! A user of Redis with only the privileges that docs/clusters.md lists, and with one less.

use std::time::Duration;

use harness::{Redis, eventually};

use crate::redis::{all_report, assert_exact, send};
use crate::{Cluster, NODES};

const DOCS: &str = include_str!("../../docs/clusters.md");

/// Starts the nodes again with a user that is created as the docs describe.
fn restart_with_user(cluster: &mut Cluster, servers: &[&Redis]) {
    let line = DOCS.lines().find(|line| line.contains("ACL SETUSER"));
    let command = line.expect("a command").replace("NAME", "nodes");
    let command: Vec<_> = command.split_whitespace().collect();
    for redis in [&[&cluster.redis], servers].concat() {
        redis.cli(&command);
    }
    cluster.redis_url = cluster.redis_url.replacen("://", "://nodes:PASSWORD@", 1);
    cluster.nodes = (0..NODES).map(|_| cluster.start_node()).collect();
    assert!(all_report(cluster, "ready"));
    assert_exact(cluster);
}

#[test]
fn a_redis_user_without_permission_to_read_counts_as_an_outage_and_the_log_has_the_cause() {
    let mut cluster = Cluster::start_with_long_redis_timeout();
    restart_with_user(&mut cluster, &[]);
    cluster.redis.cli(&["ACL", "SETUSER", "nodes", "-get"]);
    assert_eq!(send(&cluster, &cluster.large_key(), 5).admitted, 5 * NODES);
    eventually(Duration::from_secs(1), "degraded", || {
        all_report(&cluster, "degraded")
    });
    let log = cluster.nodes[0].log();
    assert!(log.contains("can't run this command"), "{log}");
    cluster.redis.cli(&["ACL", "SETUSER", "nodes", "+get"]);
    eventually(Duration::from_secs(2), "ready", || {
        all_report(&cluster, "ready")
    });
}

#[test]
fn the_documented_privileges_are_enough_for_a_redis_cluster() {
    let (mut cluster, [two, three]) = Cluster::on_redis_cluster();
    restart_with_user(&mut cluster, &[&two, &three]);
    // Enough that every node of Redis has some.
    let keys: Vec<_> = (0..12).map(|_| cluster.large_key()).collect();
    let send_all = || {
        for key in &keys {
            assert_eq!(send(&cluster, key, 1).admitted, NODES);
        }
    };
    send_all();

    // A resharding, while all keys of some slots have been moved: the first node redirects clients to the second for each request.
    let (one, port) = (&cluster.redis, two.port().to_string());
    let ids = [one, &two].map(|redis| redis.cli(&["CLUSTER", "MYID"]));
    for name in one.cli(&["KEYS", "*"]).lines() {
        let slot = one.cli(&["CLUSTER", "KEYSLOT", name]);
        two.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]);
        one.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]);
        one.cli(&["MIGRATE", "127.0.0.1", &port, name, "0", "5000"]);
    }
    send_all();
    for node in 0..NODES {
        let outages = cluster.metric(node, "animal_store_redis_outages_total");
        assert_eq!(outages, "0", "{}", cluster.nodes[node].log());
    }
}
