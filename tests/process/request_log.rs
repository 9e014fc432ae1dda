//! The lines of requests in the log.

use std::time::Duration;

use harness::{Client, Connection, Process};
use serde_json::{Value, json};

use crate::lifecycle::{DRAIN, begin_request};
use crate::{PROGRAM, folder, large_key, logged};

/// Sends one request of each kind. Returns their IDs and the expected content of their lines.
fn one_of_each(client: &Client) -> Vec<(&'static str, &'static str, u16, bool)> {
    let ask = |method: &str, target: &str, id: &str| {
        let request = client.request(method, target).header("X-Request-Id", id);
        assert_eq!(request.clone().send().header("x-request-id"), Some(id));
    };
    ask("GET", "/v1/pets?limit=5", "list");
    ask("GET", "/v1/pets/7", "get");
    ask("GET", "/v1/nothing", "unknown");
    ask("GET", "/docs", "docs");
    let animal = json!({"name": "Rex", "categoryId": 1});
    let made = client
        .request("POST", "/v1/pets")
        .header("X-Request-Id", "create")
        .json(&animal)
        .send();
    assert_eq!(made.status, 201);
    let anonymous = client.with_key(None);
    let rejected = anonymous
        .request("GET", "/v1/pets")
        .header("X-Request-Id", "anonymous")
        .send();
    assert_eq!(rejected.status, 401);
    for health in ["/livez", "/readyz"] {
        assert_eq!(
            anonymous
                .request("GET", health)
                .header("X-Request-Id", "health")
                .send()
                .status,
            200
        );
    }
    vec![
        ("list", "listPets", 200, true),
        ("get", "getPet", 404, true),
        ("unknown", "unknown", 404, true),
        ("docs", "docs", 200, false),
        ("create", "createPet", 201, true),
        ("anonymous", "listPets", 401, false),
    ]
}

#[test]
fn every_request_but_a_health_check_is_one_line_of_text() {
    let folder = folder();
    let key = large_key(folder.path());
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    let expected = one_of_each(&process.client(Some(&key)));
    process.signal("TERM");
    assert_eq!(process.ends_within(DRAIN), Some(0));
    let log = process.log();
    let requests: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(" request id="))
        .collect();
    assert_eq!(requests.len(), expected.len(), "{log}");
    for (id, operation, status, with_key) in expected {
        let method = if id == "create" { "POST" } else { "GET" };
        let start = format!(
            "id={id} method={method} operation={operation} client=127.0.0.1 status={status} ms="
        );
        let line = requests
            .iter()
            .find(|line| line.contains(&start))
            .unwrap_or_else(|| panic!("no {start}: {log}"));
        assert_eq!(line.ends_with(" key=1"), with_key, "{line}");
        assert!(
            line.starts_with("20") && line.contains("Z  INFO "),
            "{line}"
        );
        let ms = line
            .split("ms=")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .expect("a duration");
        assert!(ms.parse::<f64>().is_ok_and(|ms| ms > 0.0), "{line}");
    }
}

#[test]
fn the_time_in_which_a_client_sends_the_head_is_not_part_of_the_duration() {
    let folder = folder();
    let process = Process::serve(PROGRAM, folder.path(), &["--no-first-key"]);
    let mut connection = Connection::new(process.address);
    for part in ["GET /v1/pets HTTP/1.1\r\n", "Host: x\r\n", "\r\n"] {
        std::thread::sleep(Duration::from_secs(1));
        connection.send(part.as_bytes());
    }
    assert_eq!(connection.response().status, 401);
    let log = logged(&process, &["operation=listPets", "status=401"]);
    let (_, ms) = log.split_once("ms=").expect("a duration");
    let ms = ms.split_whitespace().next().expect("a number");
    let ms: f64 = ms.parse().expect("a number");
    assert!(ms < 900.0, "{log}");
}

#[test]
fn every_request_but_a_health_check_is_one_line_of_json() {
    let folder = folder();
    let key = large_key(folder.path());
    let mut process = Process::serve(PROGRAM, folder.path(), &["--log", "json"]);
    let expected = one_of_each(&process.client(Some(&key)));
    process.signal("TERM");
    assert_eq!(process.ends_within(DRAIN), Some(0));
    let parse =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    let lines: Vec<Value> = process.log().lines().map(parse).collect();
    assert!(
        lines
            .iter()
            .all(|line| line["timestamp"].is_string() && line["level"].is_string()),
        "{lines:#?}"
    );
    let requests: Vec<&Value> = lines
        .iter()
        .filter(|line| line["message"] == "request")
        .collect();
    assert_eq!(requests.len(), expected.len(), "{lines:#?}");
    for (id, operation, status, with_key) in expected {
        let line = requests
            .iter()
            .find(|line| line["id"] == id)
            .unwrap_or_else(|| panic!("no {id}: {lines:#?}"));
        assert_eq!(
            (&line["operation"], &line["status"]),
            (&json!(operation), &json!(status))
        );
        let method = if id == "create" { "POST" } else { "GET" };
        assert_eq!(
            (&line["method"], &line["client"]),
            (&json!(method), &json!("127.0.0.1"))
        );
        assert_eq!(line.get("key"), with_key.then_some(&json!(1)), "{line}");
        assert!(line["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
    }
}

#[test]
fn a_request_whose_client_disconnects_is_logged() {
    let folder = folder();
    let key = large_key(folder.path());
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    let client = process.client(Some(&key));
    drop(begin_request(&client));
    logged(&process, &["id=slow", "operation=createPet", "key=1"]);
    assert!(client.get("/v1/pets").ids().is_empty());
}

#[test]
fn requests_are_logged_from_info_on() {
    for (level, is_logged) in [("warn", false), ("info", true), ("debug", true)] {
        let folder = folder();
        let key = large_key(folder.path());
        let mut process = Process::serve(PROGRAM, folder.path(), &["--log-level", level]);
        assert_eq!(process.client(Some(&key)).get("/v1/pets").status, 200);
        process.signal("TERM");
        assert_eq!(process.ends_within(DRAIN), Some(0));
        assert_eq!(
            process.log().contains("operation=listPets"),
            is_logged,
            "{level}"
        );
    }
}
