//! The form of every request: not too long, and addressed to one host.

use std::time::Duration;

use harness::{App, Client, Response, enterprise};

/// A target of exactly this many bytes.
fn target(path: &str, bytes: usize) -> String {
    format!("{path}?{}", "x".repeat(bytes - path.len() - 1))
}

/// The response to a request with exactly these lines; `KEY` is replaced by the authorization.
fn raw(client: &Client, first: &str, lines: &str) -> Response {
    let mut connection = client.connect();
    let key = client.key.as_deref().unwrap_or_default();
    let lines = lines.replace("KEY", &format!("Authorization: Bearer {key}\r\n"));
    connection.send(format!("{first}\r\n{lines}\r\n").as_bytes());
    let response = connection.response();
    assert!(response.header("x-request-id").is_some(), "{response}");
    response
}

#[test]
fn a_target_may_have_8_kib_and_a_longer_one_is_414() {
    let (_app, anonymous, key) = App::start();
    assert_eq!(key.get(&target("/v1/pets", 8192)).status, 200);
    assert_eq!(anonymous.get(&target("/livez", 8192)).status, 200);
    for bytes in [8193, 15_000] {
        key.get(&target("/v1/pets", bytes))
            .is_error(414, "uri_too_long");
        anonymous
            .get(&target("/livez", bytes))
            .is_error(414, "uri_too_long");
    }
    let path = format!("/v1/pets/{}", "1".repeat(8192));
    key.get(&path).is_error(414, "uri_too_long");
}

#[test]
fn under_v1_a_target_that_is_too_long_is_414_only_after_authentication() {
    let (_app, anonymous, _) = App::start();
    let response = anonymous.get(&target("/v1/pets", 9000));
    response.is_error(401, "missing_api_key");
}

#[test]
fn a_request_without_a_host_is_400() {
    let (_app, anonymous, key) = App::start();
    for (client, path) in [
        (&key, "/v1/pets"),
        (&anonymous, "/livez"),
        (&anonymous, "/nothing"),
    ] {
        let response = raw(client, &format!("GET {path} HTTP/1.1"), "KEY");
        let message = response.is_error(400, "invalid_parameter").message();
        assert!(message.contains("Host"), "{message}");
    }
}

#[test]
fn a_request_with_two_hosts_is_400() {
    let (_app, _, key) = App::start();
    let response = raw(&key, "GET /v1/pets HTTP/1.1", "Host: a\r\nHost: a\r\nKEY");
    response.is_error(400, "invalid_parameter");
}

#[test]
fn a_host_that_is_not_a_valid_authority_is_400() {
    let (_app, anonymous, key) = App::start();
    let long = format!("{}.example", "a".repeat(248));
    for host in [
        "",
        " ",
        "a b",
        "a/b",
        "a\\b",
        "a?b",
        "a#b",
        "<a>",
        "a\"b",
        "u@a",
        "u:p@a",
        "a:b",
        "a:-1",
        "a:65536",
        "a:8:8",
        ":80",
        "[::1",
        "::1",
        "[::1]x",
        "[::1]:x",
        "[1.2.3.4]",
        "[fe80::1%25eth0]",
        "[]",
        "a%",
        "a%zz",
        "http://a",
        "a, b",
        "\u{e9}.example",
        &long,
    ] {
        for (client, path) in [
            (&key, "/v1/pets"),
            (&key, "/v1/pets/1"),
            (&anonymous, "/livez"),
        ] {
            let response = raw(
                client,
                &format!("GET {path} HTTP/1.1"),
                &format!("Host: {host}\r\nKEY"),
            );
            let message = response.is_error(400, "invalid_parameter").message();
            assert!(message.contains("Host"), "{host:?}: {message}");
        }
    }
    for host in [
        "a",
        "A.example",
        "a.example.",
        "a_b-c~.example:80",
        "127.0.0.1:8080",
        "a:",
        "a:00080",
        "a:000000080",
        "[::1]",
        "[2001:db8::1]:65535",
        "a%20b",
        &long[1..],
    ] {
        let response = raw(
            &key,
            "GET /v1/pets HTTP/1.1",
            &format!("Host: {host}\r\nKEY"),
        );
        assert_eq!(response.status, 200, "{host}: {response}");
    }
}

#[test]
fn under_v1_a_bad_host_is_400_only_after_authentication() {
    let (_app, anonymous, _) = App::start();
    for path in ["/v1/pets", "/v1/pets/1"] {
        let response = raw(&anonymous, &format!("GET {path} HTTP/1.1"), "Host: a/b\r\n");
        response.is_error(401, "missing_api_key");
    }
}

#[test]
fn a_transfer_encoding_other_than_one_chunked_is_400_and_ends_the_connection() {
    let (_app, _, key) = App::start();
    let body = "2\r\n{}\r\n0\r\n\r\n";
    let secret = key.key.as_deref().unwrap();
    let send = |method: &str, path: &str, lines: &str| {
        let mut connection = key.connect();
        connection.send(
            format!(
                "{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\n\
                 Content-Type: application/json\r\n{lines}\r\n{body}"
            )
            .as_bytes(),
        );
        (connection.response(), connection)
    };
    for lines in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: , chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        // hyper rejects these itself, with a bare 400.
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding:\r\n",
    ] {
        for (method, path) in [("POST", "/v1/pets"), ("GET", "/v1/pets"), ("GET", "/livez")] {
            let (response, mut connection) = send(method, path, lines);
            assert_eq!(
                response.status, 400,
                "{method} {path} {lines:?}: {response}"
            );
            if response.header("x-request-id").is_some() {
                let message = response.is_error(400, "invalid_parameter").message();
                assert!(message.contains("Transfer-Encoding"), "{message}");
                assert_eq!(response.header("connection"), Some("close"), "{response}");
            }
            assert!(connection.is_closed(), "{method} {path} {lines:?}");
        }
    }
    for lines in [
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding: Chunked\r\n",
    ] {
        let (response, _) = send("POST", "/v1/pets", lines);
        response.is_error(400, "invalid_body");
        assert_eq!(send("GET", "/v1/pets", lines).0.status, 200);
    }
}

#[test]
fn an_ambiguous_transfer_encoding_ends_the_connection_whatever_the_response_is() {
    let (app, anonymous, _) = App::start();
    let exhausted = app.key(enterprise(1, 1));
    assert_eq!(exhausted.get("/v1/pets").status, 200);
    let admin = Client::new(app.admin_address(), None);
    for (client, target, [if_ambiguous, otherwise]) in [
        (&anonymous, "/v1/pets", [401, 401]),
        (&exhausted, "/v1/pets", [429, 429]),
        (&admin, "/livez", [400, 405]),
        (&admin, "/nothing", [400, 404]),
    ] {
        for (encoding, status, ends) in [
            ("gzip, chunked", if_ambiguous, true),
            ("chunked", otherwise, false),
        ] {
            let key = match &client.key {
                Some(key) => format!("Authorization: Bearer {key}\r\n"),
                None => String::new(),
            };
            let request = format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\n{key}Transfer-Encoding: {encoding}\r\n\r\n\
                 2\r\n{{}}\r\n0\r\n\r\n"
            );
            let mut connection = client.connect();
            connection.send(request.as_bytes());
            let response = connection.response();
            assert_eq!(response.status, status, "{target} {encoding}: {response}");
            let closes = response.header("connection") == Some("close");
            assert_eq!(closes, ends, "{target} {encoding}: {response}");
            if ends {
                assert!(connection.is_closed(), "{target} {encoding}");
            } else {
                connection.send(request.as_bytes());
                assert_eq!(connection.response().status, status, "{target} {encoding}");
            }
        }
    }
}

#[test]
fn a_client_that_sends_on_after_a_response_that_ends_the_connection_is_not_cut_off() {
    let (_app, anonymous, _) = App::start();
    let request =
        b"GET /v1/pets HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    let mut connection = anonymous.connect();
    connection.send(request);
    assert_eq!(connection.response().header("connection"), Some("close"));
    assert!(connection.is_closed());
    // A server that does not read any more would reset the connection, and some systems report that instead of the response.
    for _ in 0..3 {
        assert!(connection.try_send(request), "the server does not read");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_request_after_trailers_is_not_read() {
    let (_app, _, key) = App::start();
    let secret = key.key.as_deref().unwrap();
    let next =
        format!("GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\n\r\n");
    for (end, goes_on) in [
        ("0\r\n\r\n", true),
        ("0\r\nX: a\r\n\r\n", false),
        // A line break of one character. The next request would be taken for a trailer.
        ("0\r\n\n", false),
        ("0\r\nX: a\n\r\n", false),
        ("0\r\nX: a\n\n", false),
    ] {
        for authorization in [format!("Authorization: Bearer {secret}\r\n"), String::new()] {
            let mut connection = key.connect();
            connection.send(
                format!(
                    "POST /v1/pets HTTP/1.1\r\nHost: a\r\n{authorization}Content-Type: application/json\r\n\
                     Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n{end}{next}{next}"
                )
                .as_bytes(),
            );
            let response = connection.response();
            assert_eq!(
                response.header("connection"),
                (!goes_on).then_some("close"),
                "{end:?}: {response}"
            );
            assert_eq!(connection.is_closed(), !goes_on, "{end:?}");
        }
    }
}

#[test]
fn http_1_0_needs_no_host() {
    let (_app, _, key) = App::start();
    let response = raw(&key, "GET /v1/pets HTTP/1.0", "KEY");
    assert_eq!(
        (response.status, response.body.as_slice()),
        (200, &b"[]"[..])
    );
}
