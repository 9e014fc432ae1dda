//! A node that cannot reach PostgreSQL: it says so without waiting for it, and how old its keys are.

use std::time::{Duration, Instant};

use harness::eventually;

use crate::Cluster;

/// How long a response may take that asks nobody.
const AT_ONCE: Duration = Duration::from_millis(200);

#[test]
fn a_node_cut_off_from_postgresql_is_not_ready_and_shows_the_age_of_its_keys() {
    let cluster = Cluster::start();
    let (id, key) = cluster.key(1_000_000, 1_000_000);
    let client = cluster.nodes[0].client(Some(&key));
    client.create_many(30);
    assert_eq!(client.get("/v1/pets?limit=5").status, 200);
    let age = || -> f64 {
        cluster
            .metric(0, "animal_store_keys_age_seconds ")
            .parse()
            .expect("a number")
    };
    assert!(age() < 5.0);

    cluster.postgres.stall();
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    let mut ask = |target: &str| {
        let began = Instant::now();
        let answer = client.get(target);
        slowest = slowest.max(began.elapsed());
        answer
    };
    while ask("/readyz").status == 200 {
        assert!(began.elapsed() < Duration::from_secs(2), "still ready");
    }
    let mut told = String::new();
    eventually(Duration::from_secs(10), "the keys are old", || {
        let answer = ask("/readyz?verbose");
        answer.is_error(503, "unavailable");
        told = answer.message();
        told.contains("keys: degraded (not current since 20")
    });
    assert!(told.contains("store: failed ("), "{told}");
    assert!(age() >= 5.0, "{}", age());
    // What is cached is served all the same, to keys that may have been revoked meanwhile.
    assert_eq!(ask("/v1/pets?limit=5").status, 200);
    assert!(slowest < AT_ONCE, "{slowest:?} for a value that is there");

    cluster.postgres.resume();
    cluster.command(&["keys", "revoke", &id.to_string()]);
    eventually(Duration::from_secs(5), "ready again", || {
        client.get("/readyz?verbose").status == 200 && client.get("/v1/pets?limit=5").status == 401
    });
    assert!(age() < 5.0);
}
