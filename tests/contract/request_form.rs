//! What every request must be like: not too long, and addressed to one host.

use harness::{Answer, App, Client};

/// A target of exactly so many bytes.
fn target(path: &str, bytes: usize) -> String {
    format!("{path}?{}", "x".repeat(bytes - path.len() - 1))
}

/// The answer to a request of this first line, these lines and no others; `KEY` stands for the authorization.
fn raw(client: &Client, first: &str, lines: &str) -> Answer {
    let mut connection = client.connect();
    let key = client.key.as_deref().unwrap_or_default();
    let lines = lines.replace("KEY", &format!("Authorization: Bearer {key}\r\n"));
    connection.send(format!("{first}\r\n{lines}\r\n").as_bytes());
    let answer = connection.answer();
    assert!(answer.header("x-request-id").is_some(), "{answer}");
    answer
}

#[test]
fn an_address_may_have_8_kib_and_over_that_is_414() {
    let (_app, anyone, key) = App::start();
    assert_eq!(key.get(&target("/v1/pets", 8192)).status, 200);
    assert_eq!(anyone.get(&target("/livez", 8192)).status, 200);
    for bytes in [8193, 20_000, 60_000] {
        key.get(&target("/v1/pets", bytes))
            .is_error(414, "uri_too_long");
        anyone
            .get(&target("/livez", bytes))
            .is_error(414, "uri_too_long");
    }
    let path = format!("/v1/pets/{}", "1".repeat(8192));
    key.get(&path).is_error(414, "uri_too_long");
}

#[test]
fn under_v1_an_address_that_is_too_long_is_414_only_after_authentication() {
    let (_app, anyone, _) = App::start();
    let answer = anyone.get(&target("/v1/pets", 9000));
    answer.is_error(401, "missing_api_key");
}

#[test]
fn a_request_without_a_host_is_400() {
    let (_app, anyone, key) = App::start();
    for (client, path) in [
        (&key, "/v1/pets"),
        (&anyone, "/livez"),
        (&anyone, "/nothing"),
    ] {
        let answer = raw(client, &format!("GET {path} HTTP/1.1"), "KEY");
        let message = answer.is_error(400, "invalid_parameter").message();
        assert!(message.contains("Host"), "{message}");
    }
}

#[test]
fn a_request_with_two_hosts_is_400() {
    let (_app, _, key) = App::start();
    let answer = raw(&key, "GET /v1/pets HTTP/1.1", "Host: a\r\nHost: a\r\nKEY");
    answer.is_error(400, "invalid_parameter");
}

#[test]
fn http_1_0_needs_no_host() {
    let (_app, _, key) = App::start();
    let answer = raw(&key, "GET /v1/pets HTTP/1.0", "KEY");
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"[]"[..]));
}
