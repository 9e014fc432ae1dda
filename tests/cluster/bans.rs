//! Bans on several nodes: each holds everywhere, is counted once, and is not lost with the node that imposed it.

use std::time::Duration;

use harness::{Client, SqlClient, eventually};

use crate::changes::{PROPAGATION_TIME, ROUNDS, eventually_on_all};
use crate::{Cluster, ensure_minute_left};

/// How long nodes wait until they report a ban of Redis that is not in the store, and a little longer.
const STORED_WITHIN: Duration = Duration::from_millis(5_500);

/// Gets a key banned that may send one request per minute: the last of 101 rejections starts the ban.
fn get_banned(client: &Client) {
    let mut connection = client.connect();
    for _ in 0..102 {
        client.request("GET", "/v1/pets").send_on(&mut connection);
    }
}

/// How many bans each node has counted.
fn counted(cluster: &Cluster, nodes: &[usize]) -> Vec<String> {
    let bans = |node: &usize| cluster.metric(*node, "animal_store_bans_total");
    nodes.iter().map(bans).collect()
}

#[test]
fn a_ban_holds_everywhere_and_so_does_an_unban() {
    let cluster = Cluster::start_with_long_redis_timeout();
    for _ in 0..ROUNDS {
        let (id, key) = cluster.key(1, 1_000);
        let nodes = cluster.clients(&key);
        ensure_minute_left(Duration::from_secs(12));
        get_banned(&nodes[0]);
        for node in &nodes {
            node.get("/v1/pets").is_error(429, "key_banned");
        }
        // The ban is stored in the background, and a key can be unbanned only once its ban is stored.
        eventually(PROPAGATION_TIME, "the ban in the store", || {
            let shown = cluster.command(&["keys", "show", &id.to_string(), "--json"]);
            shown.stdout.contains("bannedUntil") && !shown.stdout.contains("\"bannedUntil\":null")
        });
        cluster.command(&["keys", "unban", &id.to_string()]);
        eventually_on_all("the unban", &nodes, |node| {
            let response = node.get("/v1/pets");
            response.status == 200 || response.code() == "rate_limited"
        });
    }
}

#[test]
fn a_ban_that_cannot_be_stored_is_counted_by_the_node_that_imposed_it_alone() {
    let cluster = Cluster::start_with_long_redis_timeout();
    let nodes = cluster.clients(&cluster.key(1, 1_000).1);
    ensure_minute_left(Duration::from_secs(12));
    for node in &nodes {
        node.get("/v1/pets");
    }
    cluster.postgres.stop_immediately();
    get_banned(&nodes[0]);
    std::thread::sleep(STORED_WITHIN);
    for node in &nodes {
        node.get("/v1/pets").is_error(429, "key_banned");
    }
    assert_eq!(counted(&cluster, &[0, 1, 2]), ["1", "0", "0"]);
}

#[test]
fn a_ban_of_a_node_that_was_killed_before_it_was_stored_is_stored_and_logged_by_another() {
    let mut cluster = Cluster::start_with_long_redis_timeout();
    let (id, key) = cluster.key(1, 1_000);
    let nodes = cluster.clients(&key);
    ensure_minute_left(Duration::from_secs(12));
    for node in &nodes {
        node.get("/v1/pets");
    }
    let other = SqlClient::open(&cluster.postgres.url().parse().expect("a database"));
    other.lock("api_keys");
    get_banned(&nodes[0]);
    cluster.nodes[0].kill();
    other.unlock();
    std::thread::sleep(STORED_WITHIN);
    nodes[1].get("/v1/pets").is_error(429, "key_banned");
    eventually(PROPAGATION_TIME, "the ban in the store", || {
        let shown = cluster.command(&["keys", "show", &id.to_string(), "--json"]);
        !shown.stdout.contains("\"bannedUntil\":null")
    });
    // Until the third node has read it from there.
    std::thread::sleep(PROPAGATION_TIME);
    nodes[2].get("/v1/pets").is_error(429, "key_banned");
    assert_eq!(counted(&cluster, &[1, 2]), ["1", "0"]);
    let log = cluster.nodes[1].log();
    assert_eq!(log.matches("key banned").count(), 1, "{log}");
}
