//! Every change through the admin API is one line in the log: what was done, with what, and from where. Invalid tokens are lines, too.

use std::time::Duration;

use harness::{Client, Operator};
use serde_json::json;

use crate::{PROGRAM, TOKEN, post};

#[test]
fn every_change_is_one_line_in_the_log() {
    let commands = Operator::new(PROGRAM);
    let server = commands.serve(&["--no-first-key", "--admin-token", TOKEN]);
    let api = Client::new(server.admin, Some(TOKEN.into()));
    let key = json!({"name": "a", "plan": "free"});
    let created = post(&api, "/api/keys", &key).json();
    server.client(created["key"].as_str()).create_many(2);
    let begun = post(
        &api.with_key(None),
        "/api/session",
        &json!({"token": TOKEN}),
    );
    for (path, body) in [
        ("keys/1/plan", json!({"plan": "pro"})),
        ("keys/1/rotate", json!({})),
        ("keys/1/unban", json!({})),
        ("keys/1/revoke", json!({})),
        // A second time, it changes nothing.
        ("keys/1/revoke", json!({})),
        ("orders", json!({"petId": 1})),
        ("orders/1/complete", json!({})),
        ("orders", json!({"petId": 2})),
        ("orders/2/cancel", json!({})),
        ("orders", json!({"petId": 2})),
        ("pets/2/status", json!({"status": "sold", "force": true})),
    ] {
        let response = post(&api, &format!("/api/{path}"), &body);
        assert!(response.status < 300, "{path}: {response}");
    }
    let cookie = begun.header("set-cookie").expect("a cookie");
    let own = format!("http://{}", server.admin);
    let out = api.with_key(None);
    let out = out.request("DELETE", "/api/session");
    let out = out.header("Cookie", cookie).header("Origin", &own).send();
    assert_eq!(out.status, 204, "{out}");

    let mut log = String::new();
    crate::eventually("the last change is logged", || {
        log += &server.log();
        log.contains("logged out")
    });
    let lines = log.lines().filter_map(|line| line.split_once(" INFO "));
    let mut changes: Vec<&str> = lines.map(|(_, rest)| rest.trim()).collect();
    changes.retain(|line| line.contains(" subject=") || line.starts_with("logged"));
    let expected = [
        r#"key created subject="key 1""#,
        "logged in to the dashboard",
        r#"plan changed subject="key 1, pro, 300 per minute, 10000 per day""#,
        r#"key rotated subject="key 1""#,
        r#"key unbanned subject="key 1, which was not banned""#,
        r#"key revoked subject="key 1""#,
        r#"order placed subject="order 1, animal 1""#,
        r#"order completed subject="order 1, animal 1""#,
        r#"order placed subject="order 2, animal 2""#,
        r#"order cancelled subject="order 2, animal 2""#,
        r#"order placed subject="order 3, animal 2""#,
        r#"status set subject="animal 2, sold, order 3 cancelled""#,
        "logged out of the dashboard",
    ];
    assert_eq!(
        changes,
        expected.map(|line| format!("{line} client=127.0.0.1"))
    );
}

#[test]
fn a_line_has_the_address_of_the_client_that_a_trusted_proxy_names_and_no_other_peer_names_one() {
    for (proxy, client) in [("127.0.0.1", "192.0.2.7"), ("192.0.2.1", "127.0.0.1")] {
        let commands = Operator::new(PROGRAM);
        let token = ["--no-first-key", "--admin-token", TOKEN];
        let server = commands.serve(&[&token[..], &["--trusted-proxy", proxy]].concat());
        let api = Client::new(server.admin, Some(TOKEN.into()));
        let create = |api: &Client| {
            let key = json!({"name": "a", "plan": "free"});
            let request = api.request("POST", "/api/keys").json(&key);
            request.header("X-Forwarded-For", "192.0.2.7").send().status
        };
        assert_eq!(create(&api), 201);
        assert_eq!(create(&api.with_key(Some("wrong"))), 401);
        let log_in = api.request("POST", "/api/session");
        let log_in = log_in.json(&json!({"token": TOKEN}));
        let begun = log_in.header("X-Forwarded-For", "192.0.2.7").send();
        assert_eq!(begun.status, 204, "{begun}");
        let mut log = String::new();
        crate::eventually("the login is logged", || {
            log += &server.log();
            log.contains("logged in")
        });
        for event in [
            "key created subject=\"key 1\"",
            "invalid admin token",
            "logged in to the dashboard",
        ] {
            let line = format!("{event} client={client}\n");
            assert!(log.contains(&line), "{line}{log}");
        }
    }
}

#[test]
fn the_cause_of_a_500_is_in_the_log_with_the_id_of_the_request() {
    let commands = Operator::new(PROGRAM);
    let server = commands.serve(&["--no-first-key"]);
    let broken = commands.sql_client().change("DROP TABLE orders");
    broken.expect("a database");
    let failed = Client::new(server.admin, None).get("/api/orders");
    failed.is_error(500, "internal_error");
    assert!(!failed.message().contains("orders"), "{failed}");
    let id = failed.header("x-request-id").expect("an ID");
    let mut log = String::new();
    crate::eventually("the cause is logged", || {
        log += &server.log();
        let mut lines = log.lines().filter(|line| line.contains(id));
        lines.any(|line| {
            let words = [" ERROR ", "admin request failed", "cause=", "orders"];
            words.iter().all(|word| line.contains(word))
        })
    });
}

#[test]
fn invalid_tokens_beyond_the_limit_are_not_logged_one_by_one() {
    let commands = Operator::new(PROGRAM);
    let mut server = commands.serve(&["--no-first-key", "--admin-token", TOKEN]);
    let wrong = Client::new(server.admin, Some("wrong".into()));
    // More than the limit of two minutes: a new minute may begin meanwhile.
    let statuses: Vec<u16> = (0..150).map(|_| wrong.get("/metrics").status).collect();
    server.signal("TERM");
    assert_eq!(server.ends_within(Duration::from_secs(15)), Some(0));
    let log = server.log();
    let lines = log.matches(" invalid admin token client=").count();
    let rejected = statuses.iter().filter(|status| **status == 401).count();
    assert_eq!(lines, rejected, "{log}");
    let last_lines = log
        .matches(" not logged again before the next minute")
        .count();
    assert!((1..=2).contains(&last_lines) && rejected <= 120, "{log}");
}

#[test]
fn the_line_of_an_unban_says_whether_the_key_was_banned() {
    let commands = Operator::new(PROGRAM);
    let options = ["--no-first-key", "--ban-after", "1", "--admin-token", TOKEN];
    let server = commands.serve(&options);
    let api = Client::new(server.admin, Some(TOKEN.into()));
    let body = json!({"name": "a", "plan": "enterprise", "perMinute": 1, "perDay": 9});
    let created = post(&api, "/api/keys", &body).json();
    let key = server.client(created["key"].as_str());
    crate::eventually("a ban", || {
        key.get("/v1/pets");
        api.get("/api/keys/1").json()["state"] == "banned"
    });
    for _ in 0..2 {
        assert_eq!(post(&api, "/api/keys/1/unban", &json!({})).status, 200);
    }
    let mut log = String::new();
    crate::eventually("both are logged", || {
        log += &server.log();
        log.matches(" key unbanned ").count() == 2
    });
    assert!(
        log.contains(r#" key unbanned subject="key 1" client="#),
        "{log}"
    );
    assert!(
        log.contains(r#" subject="key 1, which was not banned" client="#),
        "{log}"
    );
}
