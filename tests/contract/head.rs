//! `HEAD`: the response of `GET` without its body.

use harness::{App, Client, Response};

use crate::rex;

/// The status and the headers, without those that differ between requests. A length of 0 may be omitted.
fn comparable(response: Response) -> (u16, Vec<(String, String)>) {
    let differs = ["date", "x-request-id", "x-ratelimit-remaining"];
    let mut headers = response.headers;
    headers.retain(|(name, _)| !differs.contains(&name.as_str()));
    headers.retain(|(name, value)| (name.as_str(), value.as_str()) != ("content-length", "0"));
    (response.status, headers)
}

/// Compares `HEAD` and then `GET` on one connection: a body after the first would be read as the start of the second.
#[track_caller]
fn agree(client: &Client, target: &str, status: u16) {
    let mut connection = client.connect();
    let head = client.request("HEAD", target).send_on(&mut connection);
    let get = client.request("GET", target).send_on(&mut connection);
    assert_eq!(get.status, status, "{get}");
    assert_eq!(head.body, b"");
    let length = get.body.len().to_string();
    assert_eq!(
        head.header("content-length").unwrap_or("0"),
        length,
        "{head}"
    );
    assert_eq!(comparable(head), comparable(get));
}

#[test]
fn head_works_wherever_get_does_with_the_same_headers_and_no_body() {
    let (_app, anonymous, key) = App::start();
    key.create(&rex());
    key.create(&rex());
    for target in [
        "/v1/pets",
        "/v1/pets?limit=1&status=pending",
        "/v1/pets?status=sold",
        "/v1/pets/1",
    ] {
        agree(&key, target, 200);
    }
    for target in [
        "/docs",
        "/openapi.json",
        "/openapi.yaml",
        "/livez",
        "/readyz",
        "/readyz?verbose",
    ] {
        agree(&anonymous, target, 200);
    }
    agree(&anonymous, "/", 302);
}

#[test]
fn head_is_rejected_like_get_with_the_same_headers_and_no_body() {
    let (_app, anonymous, key) = App::start();
    for target in ["/v1/pets", "/v1/pets/1", "/v1/nothing"] {
        agree(&anonymous, target, 401);
    }
    agree(&key, "/v1/pets?limit=0", 400);
    agree(&key, "/v1/pets/1", 404);
    agree(&key, "/v1/nothing", 404);
    agree(&anonymous, "/nothing", 404);
    agree(&key, &format!("/v1/pets?{}", "x".repeat(8192)), 414);
}
