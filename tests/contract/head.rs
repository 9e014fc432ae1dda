//! `HEAD`: what `GET` says, without its body.

use harness::{App, Client, Response};

use crate::rex;

/// The status and the headers, but for those that differ from one request to the next. The length of an empty body goes
/// without saying.
fn heading(response: Response) -> (u16, Vec<(String, String)>) {
    let differs = ["date", "x-request-id", "x-ratelimit-remaining"];
    let mut headers = response.headers;
    headers.retain(|(name, _)| !differs.contains(&name.as_str()));
    headers.retain(|(name, value)| (name.as_str(), value.as_str()) != ("content-length", "0"));
    (response.status, headers)
}

/// `HEAD` and then `GET` on one connection: a body after the first would be read as the start of the second.
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
    assert_eq!(heading(head), heading(get));
}

#[test]
fn head_works_wherever_get_does_with_the_same_headers_and_no_body() {
    let (_app, anyone, key) = App::start();
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
        agree(&anyone, target, 200);
    }
    agree(&anyone, "/", 302);
}

#[test]
fn head_is_refused_as_get_is_with_the_same_headers_and_no_body() {
    let (_app, anyone, key) = App::start();
    for target in ["/v1/pets", "/v1/pets/1", "/v1/nothing"] {
        agree(&anyone, target, 401);
    }
    agree(&key, "/v1/pets?limit=0", 400);
    agree(&key, "/v1/pets/1", 404);
    agree(&key, "/v1/nothing", 404);
    agree(&anyone, "/nothing", 404);
    agree(&key, &format!("/v1/pets?{}", "x".repeat(8192)), 414);
}
