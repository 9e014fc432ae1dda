//! `X-Request-Id`: the client's where it is valid, and one of ours otherwise.

use std::collections::HashSet;

use harness::{App, Client};

use crate::rex;

fn id_for(client: &Client, target: &str, ids: &[&str]) -> String {
    let mut request = client.request("GET", target);
    for id in ids {
        request = request.header("X-Request-Id", id);
    }
    let response = request.send();
    response
        .header("x-request-id")
        .unwrap_or_default()
        .to_owned()
}

fn is_valid(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&id.len()) && id.chars().all(plain)
}

#[test]
fn a_valid_id_sent_by_the_client_is_kept() {
    let (_app, anonymous, key) = App::start();
    let with_scheme = "atlas_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
    let long = "x".repeat(64);
    for id in ["a", "0", "-", "_", ".", "AZaz09-_.", &long, with_scheme] {
        assert_eq!(id_for(&key, "/v1/pets", &[id]), id);
    }
    for target in [
        "/v1/pets",
        "/v1/pets/1",
        "/v1/nothing",
        "/nothing",
        "/docs",
        "/livez",
    ] {
        assert_eq!(id_for(&anonymous, target, &["mine"]), "mine", "{target}");
    }
}

#[test]
fn an_invalid_id_is_replaced() {
    let (_app, _, key) = App::start();
    let long = "x".repeat(65);
    for ids in [
        &[][..],
        &[""],
        &["a b"],
        &["a,b"],
        &["a/b"],
        &["a:b"],
        &["é"],
        &["a\"b"],
        &["%41"],
        &[&long],
        &["a", "a"],
        &["a", "b"],
    ] {
        let id = id_for(&key, "/v1/pets", ids);
        assert!(
            is_valid(&id) && !ids.contains(&id.as_str()),
            "{ids:?}: {id}"
        );
    }
}

#[test]
fn a_key_sent_as_an_id_is_not_repeated() {
    let (app, _, key) = App::start();
    let admin = Client::new(app.admin_address(), None);
    let secret = key.key.as_deref().unwrap();
    for id in [secret, &format!("x{secret}"), &format!("{secret}.1")] {
        for (client, target) in [(&key, "/v1/pets"), (&admin, "/api/pets")] {
            let sent = id_for(client, target, &[id]);
            assert!(!sent.contains(secret), "{target}, {id}: {sent}");
        }
    }
    assert_eq!(id_for(&admin, "/api/pets", &["mine"]), "mine");
}

#[test]
fn every_response_has_an_id_and_no_two_have_the_same() {
    let (_app, anonymous, key) = App::start();
    let mut seen = HashSet::new();
    for _ in 0..5 {
        for response in [
            key.create(&rex()),
            key.create(&serde_json::json!({})),
            key.get("/v1/pets"),
            key.get("/v1/pets/1"),
            key.get("/v1/nothing"),
            key.request("PUT", "/v1/pets").send(),
            anonymous.get("/v1/pets"),
            anonymous.get("/"),
            anonymous.get("/nothing"),
            anonymous.get("/livez"),
        ] {
            let id = response.header("x-request-id").unwrap();
            assert!(is_valid(id) && seen.insert(id.to_owned()), "{response}");
        }
    }
}
