//! Authentication: the bearer key, and every way in which it can be missing or invalid.

use animal_store::key::Secret;
use animal_store::keys;
use harness::{App, Client, Response, enterprise, eventually};
use std::time::Duration;

use crate::rex;

const CHALLENGE: &str = "Bearer realm=\"animal-store\"";
const INVALID_TOKEN: &str = "Bearer realm=\"animal-store\", error=\"invalid_token\"";

#[track_caller]
fn is_missing(response: &Response) {
    response.is_error(401, "missing_api_key");
    assert_eq!(response.header("www-authenticate"), Some(CHALLENGE));
}

#[track_caller]
fn is_invalid(response: &Response) {
    response.is_error(401, "invalid_api_key");
    assert_eq!(response.header("www-authenticate"), Some(INVALID_TOKEN));
}

fn authorized(anonymous: &Client, value: &str) -> Response {
    let request = anonymous.request("GET", "/v1/pets");
    request.header("Authorization", value).send()
}

#[test]
fn a_request_with_a_key_in_the_authorization_header_is_authenticated() {
    let (_app, anonymous, key) = App::start();
    let secret = key.key.unwrap();
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        let response = authorized(&anonymous, &format!("{scheme} {secret}"));
        assert_eq!(response.status, 200, "{scheme}");
    }
}

#[test]
fn every_operation_requires_a_key() {
    let (_app, anonymous, key) = App::start();
    key.create(&rex());
    let create = |who: &Client| who.create(&rex());
    let wrong = anonymous.with_key(Some("wrong"));
    is_missing(&anonymous.get("/v1/pets"));
    is_missing(&anonymous.get("/v1/pets/1"));
    is_missing(&anonymous.get("/v1/store/orders"));
    is_missing(&create(&anonymous));
    is_invalid(&wrong.get("/v1/pets"));
    is_invalid(&wrong.get("/v1/pets/1"));
    is_invalid(&wrong.get("/v1/store/orders"));
    is_invalid(&create(&wrong));
    assert_eq!(key.get("/v1/pets").ids(), [1]);
}

#[test]
fn a_request_that_sends_no_key_is_401_missing_api_key() {
    let (_app, anonymous, key) = App::start();
    let secret = key.key.unwrap();
    is_missing(&anonymous.get("/v1/pets"));
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Digest username=\"a\"",
        &secret,
        &format!("Bearer{secret}"),
        &format!("Basic {secret}"),
        &format!("Bearer:{secret}"),
    ] {
        is_missing(&authorized(&anonymous, value));
    }
}

#[test]
fn a_key_in_another_place_is_ignored() {
    let (_app, anonymous, key) = App::start();
    let secret = key.key.unwrap();
    let request = anonymous.request("GET", "/v1/pets");
    is_missing(&request.header("X-Api-Key", &secret).send());
    is_missing(&anonymous.get(&format!("/v1/pets?api_key={secret}&access_token={secret}")));
}

#[test]
fn a_malformed_key_is_401_invalid_api_key() {
    let (_app, anonymous, key) = App::start();
    let secret = key.key.unwrap();
    let shorter = &secret[..secret.len() - 1];
    for malformed in [
        "x",
        "as_",
        shorter,
        &format!("{secret}0"),
        &format!("{secret} {secret}"),
        &format!("{secret},"),
        &secret.to_uppercase(),
        &format!("\"{secret}\""),
        &secret[3..],
        &"x".repeat(5_000),
    ] {
        is_invalid(&authorized(&anonymous, &format!("Bearer {malformed}")));
    }
}

#[test]
fn a_key_with_one_wrong_character_is_401_invalid_api_key() {
    let (_app, anonymous, key) = App::start();
    let secret = key.key.unwrap();
    for place in 0..secret.len() {
        let mut typo = secret.clone();
        let other = if &typo[place..=place] == "7" {
            "8"
        } else {
            "7"
        };
        typo.replace_range(place..=place, other);
        is_invalid(&anonymous.with_key(Some(&typo)).get("/v1/pets"));
    }
}

#[test]
fn a_mistyped_key_is_rejected_without_a_query() {
    let (app, anonymous, key) = App::start();
    let mut typo = key.key.unwrap();
    let last = typo.pop().unwrap();
    typo.push(if last == '7' { '8' } else { '7' });
    let other = app.sql_client();
    other.change("ALTER TABLE api_keys RENAME TO away").unwrap();
    is_invalid(&anonymous.with_key(Some(&typo)).get("/v1/pets"));
    let unknown = Secret::generate().unwrap();
    let queried = anonymous.with_key(Some(unknown.reveal())).get("/v1/pets");
    queried.is_error(500, "internal_error");
}

/// What a response has apart from its request, its time and the failures before it.
fn constant_part(response: &Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut headers = response.headers.clone();
    headers.retain(|(name, _)| {
        !["x-request-id", "date", "x-ratelimit-remaining"].contains(&name.as_str())
    });
    (response.status, headers, response.body.clone())
}

#[test]
fn unknown_revoked_expired_and_malformed_keys_get_the_same_response() {
    let (app, anonymous, _) = App::start();
    let (_, expired) = app.issue(enterprise(9, 9), Some(Duration::from_secs(5)));
    let (id, revoked) = app.issue(enterprise(9, 9), None);
    assert_eq!(expired.get("/v1/pets").status, 200);
    assert_eq!(revoked.get("/v1/pets").status, 200);
    app.clock.advance(Duration::from_secs(5));
    let revocation = app.block_on(keys::revoke(app.store(), id, app.clock.now()));
    assert!(revocation.is_ok(), "{revocation:?}");
    eventually(Duration::from_secs(5), "the key is revoked", || {
        revoked.get("/v1/pets").status == 401
    });
    let unknown = Secret::generate().unwrap();
    let unknown = anonymous.with_key(Some(unknown.reveal())).get("/v1/pets");
    is_invalid(&unknown);
    let malformed = anonymous.with_key(Some("x"));
    for response in [revoked, expired, malformed].map(|client| client.get("/v1/pets")) {
        assert_eq!(constant_part(&response), constant_part(&unknown));
    }
}

#[test]
fn two_authorization_headers_are_401_even_with_a_valid_key_in_both_and_the_message_says_so() {
    let (_app, anonymous, key) = App::start();
    let valid = format!("Bearer {}", key.key.as_deref().unwrap());
    for other in [&valid, "Basic dXNlcjpwYXNz", "Bearer x"] {
        let request = key.request("GET", "/v1/pets");
        let last = request.header("Authorization", other).send();
        let request = anonymous
            .request("GET", "/v1/pets")
            .header("Authorization", other);
        let first = request.header("Authorization", &valid).send();
        for response in [first, last] {
            is_invalid(&response);
            assert!(
                response
                    .message()
                    .contains("Authorization must be given at most once"),
                "{other}: {response}"
            );
        }
    }
}

#[test]
fn a_401_does_not_reveal_what_exists() {
    let (_app, anonymous, key) = App::start();
    key.create(&rex());
    let body = anonymous.get("/v1/pets").body;
    for path in [
        "/v1/pets/1",
        "/v1/pets/2",
        "/v1/nothing",
        "/v1",
        "/v1/pets?limit=0",
    ] {
        assert_eq!(anonymous.get(path).body, body, "{path}");
    }
}

#[test]
fn an_error_never_repeats_the_key() {
    let (_app, anonymous, key) = App::start();
    let unknown = Secret::generate().unwrap();
    let response = anonymous.with_key(Some(unknown.reveal())).get("/v1/pets");
    assert!(!response.to_string().contains(unknown.reveal()));
    let secret = key.key.as_deref().unwrap();
    let response = key.get(&format!("/v1/pets?limit={secret}"));
    assert!(
        !response
            .is_error(400, "invalid_parameter")
            .message()
            .contains(secret)
    );
}
