//! PostgreSQL loses changes, because a standby that lagged was promoted: nodes forget them, too.

use harness::{Postgres, eventually, run};
use serde_json::json;

use crate::changes::eventually_on_all;
use crate::postgres::{FAILOVER_TIME, add_standby};
use crate::{Cluster, NODES, PROGRAM, rex};

#[test]
fn nodes_forget_what_a_standby_that_lagged_has_lost() {
    lose_changes(|_| {});
}

#[test]
fn nodes_forget_what_was_lost_even_if_later_changes_hide_it() {
    lose_changes(|standby| {
        let raise = "update revisions set number = number + 10 where what = 'api_keys'";
        standby.psql("postgres", raise);
    });
}

#[test]
fn nodes_forget_what_was_lost_in_a_failover_that_is_too_fast_for_a_poll_to_fail() {
    let cluster = Cluster::start();
    let nodes = cluster.clients(&cluster.large_key());
    nodes[0].create(&rex());
    let standby = cluster.postgres.standby();
    standby.detach(&cluster.postgres);
    nodes[0].create(&json!({"name": "lost", "categoryId": 1}));
    for node in &nodes {
        assert_eq!(node.get("/v1/pets/2").json()["name"], "lost");
    }
    standby.promote();
    cluster
        .proxy
        .retarget(([127, 0, 0, 1], standby.port()).into());
    cluster.proxy.cut_now();
    let other = json!({"name": "other", "categoryId": 1});
    eventually(FAILOVER_TIME, "another animal", || {
        nodes[0].create(&other).status == 201
    });
    eventually_on_all("the other animal", &nodes, |node| {
        node.get("/v1/pets/2").json()["name"] == "other"
    });
}

/// Promotes a standby that lacks the last changes, and makes others on it immediately.
fn lose_changes(change: impl FnOnce(&Postgres)) {
    let mut cluster = Cluster::start();
    let (rotated, before) = cluster.key(100_000, 1_000_000);
    let (revoked, kept) = cluster.key(100_000, 1_000_000);
    let standby = add_standby(&mut cluster);
    let creator = &cluster.clients(&kept)[0];
    creator.create(&rex());
    standby.detach(&cluster.postgres);
    // All of this is lost.
    let rotate = ["keys", "rotate", &rotated.to_string(), "--grace", "0s"];
    let rotated_secret = cluster.command(&rotate).stdout.trim_end().to_owned();
    let (lost, lost_secret) = cluster.key(100_000, 1_000_000);
    creator.create(&json!({"name": "lost", "categoryId": 1}));
    for secret in [&kept, &rotated_secret, &lost_secret] {
        for node in cluster.clients(secret) {
            assert_eq!(node.get("/v1/pets/2").json()["name"], "lost");
        }
    }
    cluster.postgres.stop_immediately();
    for node in 0..NODES {
        eventually(FAILOVER_TIME, "an outage", || {
            let failures = "animal_store_background_failures_total{task=\"poll\"}";
            let failures: u32 = cluster.metric(node, failures).parse().expect("a number");
            failures >= 2
        });
    }
    standby.promote();
    change(&standby);
    // Valid secrets later: nodes reject an address that sends invalid ones too often.
    for (secret, status) in [(&rotated_secret, 401), (&lost_secret, 401), (&before, 200)] {
        let mut nodes = cluster.clients(secret);
        eventually(FAILOVER_TIME, "the change on each node", || {
            nodes.retain(|node| node.get("/v1/pets/1").status != status);
            nodes.is_empty()
        });
    }
    // IDs and revisions that were lost are given to others.
    let url = standby.url();
    let command = |args: &[&str]| {
        let args = [args, &["--database", &url]].concat();
        run(PROGRAM, cluster.folder.path(), &args).exits(0)
    };
    command(&["keys", "revoke", &revoked.to_string()]);
    eventually_on_all("the revocation", &cluster.clients(&kept), |node| {
        node.get("/v1/pets/1").status == 401
    });
    let create = "keys create --name new --plan enterprise --per-minute 1000 --per-day 10 --json";
    let create: Vec<&str> = create.split(' ').collect();
    let created: serde_json::Value = serde_json::from_str(&command(&create).stdout).expect("a key");
    assert_eq!(created["id"], lost);
    let new = cluster.clients(created["key"].as_str().expect("a secret"));
    let other = json!({"name": "other", "categoryId": 1});
    let response = new[0].create(&other);
    assert_eq!(response.json()["id"], 2);
    // The requests of the lost key do not count.
    assert_eq!(response.rate().1, 9);
    for node in &new {
        assert_eq!(node.get("/v1/pets/2").json()["name"], "other");
    }
}
