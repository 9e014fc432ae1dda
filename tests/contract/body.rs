//! The body of a creation: its size, its type, and the errors of one that is not valid JSON.

use harness::{App, Client, Response};
use serde_json::json;

use crate::rex;

fn post(key: &Client, content_type: &str, body: impl Into<Vec<u8>>) -> Response {
    let request = key.request("POST", "/v1/pets").body(body);
    request.header("Content-Type", content_type).send()
}

pub(crate) fn send(key: &Client, body: impl Into<Vec<u8>>) -> Response {
    post(key, "application/json", body)
}

/// Sends the head of a creation with these lines added.
fn begin(key: &Client, lines: &str) -> harness::Connection {
    let mut connection = key.connect();
    let secret = key.key.as_deref().unwrap_or_default();
    let head = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\n\
         Content-Type: application/json\r\n{lines}\r\n\r\n"
    );
    connection.send(head.as_bytes());
    connection
}

fn chunked(key: &Client, chunks: &[&[u8]]) -> Response {
    let mut connection = begin(key, "Transfer-Encoding: chunked");
    for chunk in chunks {
        connection.send(format!("{:x}\r\n", chunk.len()).as_bytes());
        connection.send(chunk);
        connection.send(b"\r\n");
    }
    connection.send(b"0\r\n\r\n");
    connection.response()
}

#[test]
fn a_malformed_chunk_is_400_with_a_message_that_names_the_cause() {
    let (_app, _, key) = App::start();
    let mut connection = begin(&key, "Transfer-Encoding: chunked");
    connection.send(b"zz\r\n");
    let response = connection.response();
    response.is_error(400, "invalid_body");
    let message = response.json()["message"].to_string();
    assert!(message.contains("its chunks are malformed"), "{response}");
}

/// A complete animal in exactly this many bytes.
fn animal_of(bytes: usize) -> Vec<u8> {
    let mut body = rex().to_string().into_bytes();
    body.resize(bytes, b' ');
    body
}

#[test]
fn a_repeated_field_is_400_also_an_unknown_one() {
    let (_app, _, key) = App::start();
    for (body, named) in [
        (r#"{"name":"a","name":"a","categoryId":1}"#, "name"),
        (r#"{"name":"a","n\u0061me":"a","categoryId":1}"#, "name"),
        (
            r#"{"name":"a","categoryId":1,"categoryId":1}"#,
            "categoryId",
        ),
        (
            r#"{"name":"a","categoryId":1,"status":"sold","status":"sold"}"#,
            "status",
        ),
        (r#"{"name":"a","categoryId":1,"id":1,"id":1}"#, "id"),
    ] {
        let response = send(&key, body);
        let message = response.is_error(400, "invalid_body").message();
        assert!(
            message.contains(&format!("{named} must be given at most once")),
            "{body}: {message}"
        );
    }
}

#[test]
fn a_body_that_is_empty_or_not_json_or_not_an_object_is_400() {
    let (_app, _, key) = App::start();
    let deep = "[".repeat(10_000);
    for body in [
        "",
        " ",
        "null",
        "1",
        "\"Rex\"",
        "[]",
        "{",
        "}",
        "{'name':'a'}",
        "{name:1}",
        "{}{}",
        "name=Rex&categoryId=1",
        "{\"name\":\"a\",\"categoryId\":1,}",
        "{\"name\":\"a\",\"categoryId\":1} x",
        "{\"name\":\"a\",\"categoryId\":01}",
        "{\"name\":\"a\",\"categoryId\":NaN}",
        "{\"name\":\"a\nb\",\"categoryId\":1}",
        "\u{feff}{}",
        &deep,
    ] {
        let response = send(&key, body);
        let message = response.is_error(400, "invalid_body").message();
        assert!(message.contains("JSON object"), "{body}: {message}");
    }
    let not_text = b"{\"name\":\"\xff\",\"categoryId\":1}";
    send(&key, not_text).is_error(400, "invalid_body");
    send(&key, r#"{"name":"\ud800","categoryId":1}"#).is_error(400, "invalid_body");
    let none = key.request("POST", "/v1/pets");
    let none = none.header("Content-Type", "application/json").send();
    none.is_error(400, "invalid_body");
}

#[test]
fn invalid_json_gets_an_error_with_the_reason_and_the_position() {
    let (_app, _, key) = App::start();
    for (body, why) in [
        ("\u{feff}{}", "byte order mark at line 1, column 1"),
        ("{\"name\":\"a\",}", "trailing comma at line 1, column 13"),
        (
            "{\"x\":{\"y\":[1,2,\n ]}}",
            "trailing comma at line 2, column 2",
        ),
        ("{'name':1}", "unexpected character ' at line 1, column 2"),
        ("{}\n{}", "unexpected character { at line 2, column 1"),
        (
            "{\"name\":é}",
            "unexpected character U+00E9 at line 1, column 9",
        ),
        ("{\"name\":\"a\"", "unexpected end at line 1, column 12"),
        (
            "{\"name\":\"a\tb\"}",
            "control character U+0009 in a string at line 1, column 11",
        ),
        ("{\"name\":\"\\x\"}", "invalid escape at line 1, column 11"),
        ("{\"categoryId\":01}", "invalid number at line 1, column 16"),
    ] {
        let response = send(&key, body);
        let message = response.is_error(400, "invalid_body").message();
        let start = format!("The body is not valid JSON: {why}.");
        assert!(message.starts_with(&start), "{body}: {message}");
    }
}

#[test]
fn an_array_of_animals_is_not_an_animal() {
    let (_app, _, key) = App::start();
    key.create(&json!([rex()])).is_error(400, "invalid_body");
}

#[test]
fn a_rejected_body_creates_nothing() {
    let (_app, _, key) = App::start();
    send(&key, "{}").is_error(400, "invalid_body");
    post(&key, "text/plain", rex().to_string()).is_error(415, "unsupported_media_type");
    send(&key, animal_of(16_385)).is_error(413, "body_too_large");
    assert_eq!(key.get("/v1/pets").body, b"[]");
}

#[test]
fn a_body_may_have_16_kib_and_a_larger_one_is_413() {
    let (_app, _, key) = App::start();
    assert_eq!(send(&key, animal_of(16_384)).status, 201);
    for bytes in [16_385, 20_000, 500_000] {
        send(&key, animal_of(bytes)).is_error(413, "body_too_large");
    }
}

#[test]
fn a_413_closes_the_connection_and_announces_it() {
    let (_app, _, key) = App::start();
    for length in [16_385, 100_000] {
        let mut connection = key.connect();
        let large = key.request("POST", "/v1/pets").body(animal_of(length));
        let large = large.header("Content-Type", "application/json");
        let response = large.send_on(&mut connection);
        response.is_error(413, "body_too_large");
        assert_eq!(response.header("connection"), Some("close"));
        connection.end();
        assert!(connection.is_closed());
    }
}

#[test]
fn a_body_may_be_chunked_and_has_the_same_limit() {
    let (_app, _, key) = App::start();
    let whole = animal_of(16_384);
    let (start, end) = whole.split_at(9);
    let made = chunked(&key, &[start, end]);
    assert_eq!(
        (made.status, made.json()["name"].as_str()),
        (201, Some("Rex"))
    );
    chunked(&key, &[start, end, b" "]).is_error(413, "body_too_large");
    chunked(&key, &[]).is_error(400, "invalid_body");
}

#[test]
fn a_client_that_expects_100_continue_gets_a_413_before_it_sends() {
    let (_app, _, key) = App::start();
    let mut connection = begin(&key, "Expect: 100-continue\r\nContent-Length: 16385");
    connection.response().is_error(413, "body_too_large");
}

#[test]
fn a_client_that_expects_100_continue_gets_it_if_it_may_continue() {
    let (_app, _, key) = App::start();
    let body = rex().to_string();
    let lines = format!("Expect: 100-continue\r\nContent-Length: {}", body.len());
    let mut connection = begin(&key, &lines);
    assert_eq!(connection.response().status, 100);
    connection.send(body.as_bytes());
    assert_eq!(connection.response().status, 201);
}

#[test]
fn a_type_other_than_json_is_415() {
    let (_app, _, key) = App::start();
    for content_type in [
        "text/plain",
        "text/json",
        "application/jsonx",
        "application/problem+json",
        "application",
        "json",
        "*/*",
        "",
        "application/x-www-form-urlencoded",
        "application/json, application/json",
        "application /json",
    ] {
        let response = post(&key, content_type, rex().to_string());
        response.is_error(415, "unsupported_media_type");
    }
    let untyped = key.request("POST", "/v1/pets").body(rex().to_string());
    untyped.send().is_error(415, "unsupported_media_type");
    let twice = key.request("POST", "/v1/pets").json(&rex());
    let twice = twice.header("Content-Type", "application/json").send();
    twice.is_error(415, "unsupported_media_type");
}

#[test]
fn a_content_encoding_other_than_identity_is_415() {
    let (_app, _, key) = App::start();
    let send = |encodings: &[&str]| {
        let mut request = key.request("POST", "/v1/pets").json(&rex());
        for encoding in encodings {
            request = request.header("Content-Encoding", encoding);
        }
        request.send()
    };
    for encodings in [
        &["gzip"][..],
        &["br"],
        &["x"],
        &[""],
        &["identity, gzip"],
        &["identity", "gzip"],
        &["gzip", "identity"],
    ] {
        let response = send(encodings);
        let message = response.is_error(415, "unsupported_media_type").message();
        assert!(message.contains("Content-Encoding"), "{message}");
        assert_eq!(response.header("accept-encoding"), Some("identity"));
    }
    for encodings in [&["identity"][..], &["Identity"]] {
        assert_eq!(send(encodings).status, 201, "{encodings:?}");
    }
}

#[test]
fn the_type_may_have_parameters_and_letters_of_any_case() {
    let (_app, _, key) = App::start();
    for content_type in [
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "application/json ; x=y",
        "APPLICATION/Json",
    ] {
        let made = post(&key, content_type, rex().to_string());
        assert_eq!(made.status, 201, "{content_type}: {made}");
    }
}

#[test]
fn a_body_is_validated_only_after_authentication() {
    let (_app, anonymous, _) = App::start();
    send(&anonymous, "{").is_error(401, "missing_api_key");
    send(&anonymous, animal_of(20_000)).is_error(401, "missing_api_key");
    post(&anonymous, "text/plain", "x").is_error(401, "missing_api_key");
}

#[test]
fn a_body_that_is_not_utf_8_is_400_wherever_the_bad_byte_is() {
    let (_app, _, key) = App::start();
    let body = br#"{"name":"a","categoryId":1,"x":"y"}"#;
    for place in 0..=body.len() {
        let mut body = body.to_vec();
        body.insert(place, 0xff);
        let request = key.request("POST", "/v1/pets").body(body);
        let response = request.header("Content-Type", "application/json").send();
        response.is_error(400, "invalid_body");
    }
}
