//! The dashboards of several nodes: each shows the health of PostgreSQL and Redis, and a change made at one is seen at the others.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::{Client, Process, eventually};
use serde_json::{Value, json};

use crate::{Cluster, rex};

const TOKEN: &str = "0123456789abcdef";

/// How soon a change takes effect on every node.
const PROPAGATION_TIME: Duration = Duration::from_secs(5);

/// Two nodes with a token, and a client of the admin API of each.
fn start(cluster: &Cluster) -> ([Process; 2], [Client; 2]) {
    let nodes = [(); 2].map(|()| cluster.start_node_with(&["--admin-token", TOKEN]));
    let operators = nodes
        .each_ref()
        .map(|node| Client::new(node.admin, Some(TOKEN.into())));
    (nodes, operators)
}

fn post(operator: &Client, path: &str, body: &Value) -> Value {
    let response = operator.request("POST", path).json(body).send();
    assert!(response.status < 300, "{response}");
    response.json()
}

/// Waits until a page with this query shows an event with this text.
#[track_caller]
fn shows_event(operator: &Client, query: &str, text: &str) {
    let mut stream = TcpStream::connect(operator.address).expect("a connection");
    let timeout = Some(Duration::from_secs(10));
    stream.set_read_timeout(timeout).expect("a timeout");
    let head = format!(
        "GET /api/live{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("a request");
    let deadline = Instant::now() + Duration::from_secs(10);
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let found = lines
        .take_while(|_| Instant::now() < deadline)
        .any(|line| line.contains(text));
    assert!(found, "no event {text:?}");
}

#[test]
fn the_dashboard_of_a_node_shows_its_name_and_how_redis_and_postgresql_are() {
    let cluster = Cluster::start();
    let (_nodes, [operator, _]) = start(&cluster);
    let overview = || operator.get("/api/overview").json();
    let check = |name: &str| overview()["checks"][name].clone();
    eventually(PROPAGATION_TIME, "everything is ready", || {
        check("redis") == "ready" && check("store") == "ready"
    });
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let shown = overview();
    assert_eq!(shown["node"], host.trim(), "{shown}");
    assert_eq!(
        (&shown["database"], &shown["redis"], &shown["ready"]),
        (&json!("postgres"), &json!(true), &json!(true)),
        "{shown}"
    );

    cluster.redis.kill();
    eventually(PROPAGATION_TIME, "Redis is down", || {
        check("redis") == "degraded"
    });
    assert_eq!(overview()["ready"], true);
    shows_event(&operator, "", "Redis is slow or unavailable");
    cluster.redis.start_again();
    eventually(PROPAGATION_TIME, "Redis is back", || {
        check("redis") == "ready"
    });
    shows_event(&operator, "", "Redis is available again");

    cluster.postgres.stall();
    eventually(PROPAGATION_TIME, "PostgreSQL is down", || {
        check("store") == "failed"
    });
    assert_eq!(overview()["ready"], false);
    cluster.postgres.resume();
    eventually(PROPAGATION_TIME, "PostgreSQL is back", || {
        check("store") == "ready"
    });
}

#[test]
fn neither_the_overview_nor_live_data_wait_for_postgresql() {
    let cluster = Cluster::start();
    let (key, _) = cluster.key(60, 60);
    let (_nodes, [operator, _]) = start(&cluster);
    // Before the animals were counted once.
    cluster.postgres.stall();
    let in_time = |what: &str, act: &dyn Fn()| {
        let began = Instant::now();
        act();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(3), "{what}: {took:?}");
    };
    in_time("the overview", &|| {
        let shown = operator.get("/api/overview").json();
        assert_eq!(shown["pets"], Value::Null, "{shown}");
    });
    let query = format!("?key={key}");
    in_time("a key", &|| shows_event(&operator, &query, "event: key"));
    in_time("an unknown key", &|| {
        let response = operator.get("/api/live?key=99");
        response.is_error(503, "unavailable");
    });
    // So that the count fails, after a second or more.
    cluster.postgres.restart_immediately();
    eventually(Duration::from_secs(45), "the animals are counted", || {
        operator.get("/api/overview").json()["pets"].is_object()
    });
}

#[test]
fn a_change_made_at_one_node_is_seen_at_another() {
    let cluster = Cluster::start();
    let (nodes, [here, there]) = start(&cluster);
    let body = json!({"name": "shop", "plan": "free"});
    let created = post(&here, "/api/keys", &body);
    let path = format!("/api/keys/{}", created["id"]);
    let secret = created["key"].as_str();
    let client = nodes[1].client(secret);
    // A new key works on all nodes immediately.
    assert_eq!(client.get("/v1/pets").rate().0, 60);
    assert_eq!(there.get(&path).json()["name"], "shop");
    post(&here, &format!("{path}/plan"), &json!({"plan": "pro"}));
    eventually(PROPAGATION_TIME, "the plan", || {
        client.get("/v1/pets").rate().0 == 300
    });
    assert_eq!(there.get(&path).json()["plan"], "pro");

    assert_eq!(client.create(&rex()).status, 201);
    client.get("/v1/pets/1");
    post(&here, "/api/orders", &json!({"petId": 1}));
    let is = |status: &str| {
        let shown = [client.get("/v1/pets/1"), there.get("/api/pets/1")];
        shown.iter().all(|pet| pet.json()["status"] == status)
    };
    eventually(PROPAGATION_TIME, "the order", || is("pending"));
    assert_eq!(there.get("/api/orders").json()[0]["state"], "open");
    post(&here, "/api/orders/1/complete", &json!({}));
    eventually(PROPAGATION_TIME, "its end", || is("sold"));
    let status = json!({"status": "available"});
    post(&here, "/api/pets/1/status", &status);
    eventually(PROPAGATION_TIME, "the status", || is("available"));

    post(&here, &format!("{path}/revoke"), &json!({}));
    eventually(PROPAGATION_TIME, "the revocation", || {
        client.get("/v1/pets").status == 401
    });
    assert_eq!(there.get(&path).json()["state"], "revoked");
}
