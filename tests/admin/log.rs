//! Every change through the admin API is one line in the log: what was done, with what, and from where.

use harness::{Client, Operator};
use serde_json::json;

use crate::{TOKEN, post};

#[test]
fn every_change_is_one_line_in_the_log() {
    let commands = Operator::new(env!("CARGO_BIN_EXE_animal-store"));
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
