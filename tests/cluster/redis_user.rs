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
}
