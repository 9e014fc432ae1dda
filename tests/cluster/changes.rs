//! What an operator changes takes effect on every node within five seconds, and an animal that was created through one node is visible
//! on all immediately.

use std::time::Duration;

use harness::{Client, eventually};

use crate::{Cluster, rex};

/// How soon a change takes effect on every node.
pub(crate) const PROPAGATION_TIME: Duration = Duration::from_secs(5);

/// How often each change is made: a revocation, a plan and a status here, and an unban in `bans.rs`.
pub(crate) const ROUNDS: usize = 13;

pub(crate) fn eventually_on_all(
    what: &str,
    nodes: &[Client],
    mut is_applied: impl FnMut(&Client) -> bool,
) {
    // A node on which it has taken effect is not asked again: it rejects an address that sends a revoked key too often.
    let mut others: Vec<&Client> = nodes.iter().collect();
    eventually(PROPAGATION_TIME, what, || {
        others.retain(|node| !is_applied(node));
        others.is_empty()
    });
}

#[test]
fn an_animal_created_through_one_node_is_visible_on_all_immediately_in_lists_and_alone() {
    let cluster = Cluster::start();
    let nodes = cluster.clients(&cluster.large_key());
    for number in 1..=60 {
        let creator = &nodes[number % nodes.len()];
        let id = creator.create(&rex()).json()["id"].as_i64().expect("an ID");
        assert_eq!(id, i64::try_from(number).expect("small"));
        for node in &nodes {
            assert_eq!(node.get(&format!("/v1/pets/{id}")).status, 200);
            assert_eq!(node.get("/v1/pets?limit=100").ids().last(), Some(&id));
        }
    }
}

#[test]
fn a_revocation_takes_effect_on_all_nodes() {
    let cluster = Cluster::start();
    for _ in 0..ROUNDS {
        let (id, key) = cluster.key(100, 100);
        let nodes = cluster.clients(&key);
        // A new key works on all nodes immediately.
        assert!(nodes.iter().all(|node| node.get("/v1/pets").status == 200));
        cluster.command(&["keys", "revoke", &id.to_string()]);
        eventually_on_all("the revocation", &nodes, |node| {
            node.get("/v1/pets").status == 401
        });
    }
}

#[test]
fn a_plan_takes_effect_on_all_nodes() {
    let cluster = Cluster::start();
    for _ in 0..ROUNDS {
        let (id, key) = cluster.key(1_000, 100_000);
        let nodes = cluster.clients(&key);
        assert!(
            nodes
                .iter()
                .all(|node| node.get("/v1/pets").rate().0 == 1_000)
        );
        let id = id.to_string();
        let args = ["keys", "set-plan", &id, "enterprise"];
        let args = [&args[..], &["--per-minute", "77", "--per-day", "9999"]].concat();
        cluster.command(&args);
        eventually_on_all("the plan", &nodes, |node| {
            node.get("/v1/pets").rate().0 == 77
        });
    }
}

#[test]
fn a_status_takes_effect_on_all_nodes() {
    let cluster = Cluster::start();
    let nodes = cluster.clients(&cluster.large_key());
    for _ in 0..3 {
        nodes[0].create(&rex());
    }
    for round in 0..ROUNDS {
        for node in &nodes {
            node.get("/v1/pets/1");
            node.get("/v1/pets?limit=2");
        }
        let status = ["sold", "pending", "available"][round % 3];
        cluster.command(&["pets", "set-status", "1", status]);
        eventually_on_all("the status", &nodes, |node| {
            node.get("/v1/pets/1").json()["status"] == status
                && node.get("/v1/pets?limit=2").json()[0]["status"] == status
        });
    }
}
