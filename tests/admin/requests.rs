//! Requests that are malformed, invalid, slow or missing.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::access::keys;
use crate::{post, start};

#[test]
fn the_form_of_a_request_is_checked_as_on_the_api() {
    let (_app, operator, _) = start();
    for path in ["/livez", "/metrics", "/", "/api/overview"] {
        for host in ["", "Host: a\r\nHost: b\r\n"] {
            let mut connection = operator.connect();
            connection.send(format!("GET {path} HTTP/1.1\r\n{host}\r\n").as_bytes());
            let response = connection.response();
            response.is_error(400, "invalid_parameter");
        }
        let long = format!("{path}?{}", "x".repeat(9_000));
        operator.get(&long).is_error(414, "uri_too_long");
    }
    let mut without_host = operator.connect();
    without_host.send(b"GET /livez HTTP/1.0\r\n\r\n");
    assert_eq!(without_host.response().status, 200);
}

#[test]
fn bad_requests_say_what_to_change() {
    let (_app, operator, _) = start();
    operator.get("/api/nothing").is_error(404, "not_found");
    operator.get("/api/keys/7").is_error(404, "not_found");
    operator.get("/api/live?key=7").is_error(404, "not_found");
    operator
        .get("/api/live?key=07")
        .is_error(400, "invalid_parameter");
    let wrong = operator.request("PUT", "/api/keys").send();
    wrong.is_error(405, "method_not_allowed");
    assert_eq!(wrong.header("allow"), Some("GET, HEAD, POST"));
    for path in ["/", "/metrics", "/livez", "/readyz", "/api/keys"] {
        let head = operator.request("HEAD", path).send();
        assert_eq!((head.status, &*head.body), (200, &b""[..]), "{path}");
    }
    for path in ["/", "/metrics", "/livez", "/readyz"] {
        let wrong = operator.request("POST", path).send();
        wrong.is_error(405, "method_not_allowed");
        assert_eq!(wrong.header("allow"), Some("GET, HEAD"), "{path}");
    }
    for (body, named) in [
        (json!({"plan": "free"}), "name"),
        (json!({"name": "", "plan": "free"}), "name"),
        (json!({"name": "a", "plan": "gold"}), "plan"),
        (json!({"name": "a", "plan": "free", "perDay": 5}), "perDay"),
        (
            json!({"name": "a", "plan": "free", "expires": "soon"}),
            "expires",
        ),
        (
            json!({"name": "a", "plan": "free", "expires": "0s"}),
            "expires",
        ),
        (json!({"name": "a", "plan": "free", "admin": true}), "admin"),
        (json!([]), "object"),
    ] {
        let response = post(&operator, "/api/keys", &body);
        response.is_error(400, "invalid_body");
        let message = response.json()["message"].to_string();
        assert!(message.contains(named), "{body}: {message}");
    }
    for twice in [
        r#"{"name": "a", "plan": "free", "name": "b"}"#,
        r#"{"name": "a", "plan": "free", "perDay": null, "perDay": null}"#,
    ] {
        let request = operator.request("POST", "/api/keys").body(twice);
        let response = request.header("Content-Type", "application/json").send();
        response.is_error(400, "invalid_body");
        assert!(response.message().contains("duplicate"), "{response}");
    }
    let text = operator.request("POST", "/api/keys").body("name=a");
    text.send().is_error(415, "unsupported_media_type");
    for (query, named) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("sort=hash", "sort"),
        ("order=up", "order"),
        ("state=gone", "state"),
        ("offset=-1", "offset"),
        ("q=a&q=b", "q"),
    ] {
        let response = operator.get(&format!("/api/keys?{query}"));
        response.is_error(400, "invalid_parameter");
        let message = response.json()["message"].to_string();
        assert!(message.contains(named), "{query}: {message}");
    }
    assert_eq!(keys(&operator), 1);
}

#[test]
fn a_login_that_does_not_arrive_does_not_delay_a_shutdown() {
    let (mut app, operator, _) = start();
    let mut silent = operator.connect();
    let head = "POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n";
    silent.send(head.as_bytes());
    assert_eq!(operator.get("/livez").status, 200);
    let began = Instant::now();
    app.stop();
    // It times out after two seconds, and its connection lingers for one.
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn idle_connections_do_not_keep_health_checks_out() {
    let (_app, operator, _) = start();
    let silent: Vec<TcpStream> = (0..80)
        .map(|_| TcpStream::connect(operator.address).expect("a connection"))
        .collect();
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(operator.get(path).status, 200, "{path}");
    }
    // Those that have waited longest were closed: there are never more than 64.
    for closed in &silent[..80 - 64] {
        let timeout = Some(Duration::from_secs(5));
        closed.set_read_timeout(timeout).expect("a timeout");
        assert_eq!((&*closed).read(&mut [0]).ok(), Some(0));
    }
    drop(silent);
}
