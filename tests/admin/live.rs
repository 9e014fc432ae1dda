//! The live data: a stream of events.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::{Client, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{PROGRAM, TOKEN, post, start};

/// An open stream of events.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    pub(crate) fn open(operator: &Client, path: &str, credentials: &str) -> Self {
        let mut stream = TcpStream::connect(operator.address).expect("a connection");
        let timeout = Some(Duration::from_secs(20));
        stream.set_read_timeout(timeout).expect("a timeout");
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{credentials}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("a request");
        Self(BufReader::new(stream))
    }

    /// The lines of the head.
    fn head(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line().filter(|line| !line.is_empty())).collect()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).expect("a line");
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event: its name and its data. None at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        let name = loop {
            let line = self.line()?;
            if let Some(name) = line.strip_prefix("event: ") {
                break name.to_owned();
            }
            assert!(
                !line.starts_with("HTTP") || line.contains(" 200 "),
                "{line}"
            );
        };
        let line = self.line()?;
        let data = line.strip_prefix("data: ").expect("data");
        Some((name, serde_json::from_str(data).expect("JSON")))
    }

    /// The data of the next event of this name.
    pub(crate) fn wait_for(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.next().expect("the stream continues");
            if found == name {
                return data;
            }
        }
    }
}

pub(crate) fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}")
}

/// The numbers of a sample by their names.
pub(crate) fn numbers(names: &Value, sample: &Value) -> HashMap<String, f64> {
    let names = names.as_array().expect("names").iter();
    let pairs = names.zip(sample.as_array().expect("numbers"));
    let known =
        pairs.filter_map(|(name, number)| Some((name.as_str()?.to_owned(), number.as_f64()?)));
    known.collect()
}

#[test]
fn a_page_gets_the_past_at_once_and_then_a_sample_each_second() {
    let (app, operator, client) = start();
    client.create_many(2);
    let mut events = Events::open(&operator, "/api/live", &bearer());
    let head = events.head();
    let types = head.iter().filter(|line| line.starts_with("content-type"));
    assert!(types.eq(["content-type: text/event-stream"]), "{head:?}");
    assert!(
        head.contains(&"cache-control: no-store".to_owned()),
        "{head:?}"
    );
    // Otherwise nginx would keep the events until its buffer is full.
    assert!(
        head.contains(&"x-accel-buffering: no".to_owned()),
        "{head:?}"
    );
    let history = events.wait_for("history");
    let names = history["names"].clone();
    let (mut succeeded, mut unauthorized, mut rows) = (0.0, 0.0, 0.0);
    let deadline = Instant::now() + Duration::from_secs(20);
    while (succeeded < 5.0 || unauthorized < 1.0 || rows < 1.0) && Instant::now() < deadline {
        for _ in 0..5 {
            assert_eq!(client.get("/v1/pets").status, 200);
        }
        client.create_many(1);
        app.anonymous().get("/v1/pets");
        let sample = numbers(&names, &events.wait_for("sample"));
        assert!(
            sample["memory"] > 1e6 && sample["connections"] >= 0.0,
            "{sample:?}"
        );
        succeeded += sample["succeeded"];
        unauthorized += sample["unauthorized"];
        rows += sample["rows"];
        if sample["succeeded"] > 0.0 {
            assert!(sample["p50"] <= sample["p99"] && sample["p99"] <= sample["p999"]);
        }
    }
    assert!(succeeded >= 5.0 && unauthorized >= 1.0 && rows >= 1.0);
    let mut later = Events::open(&operator, "/api/live", &bearer());
    let samples = later.wait_for("history")["samples"].clone();
    assert!(
        samples
            .as_array()
            .is_some_and(|samples| !samples.is_empty())
    );

    crate::eventually("the animals are counted", || {
        let overview = operator.get("/api/overview").json();
        overview["pets"]["available"].as_i64() >= Some(3) && overview["now"]["memory"].is_number()
    });
}

#[test]
fn the_requests_of_a_key_are_counted_by_status_while_its_page_is_open() {
    let (app, operator, _) = start();
    let created = post(
        &operator,
        "/api/keys",
        &json!({"name": "a", "plan": "free"}),
    )
    .json();
    let client = app.client(created["key"].as_str().map(str::to_owned));
    client.get("/v1/pets");
    let path = format!("/api/live?key={}", created["id"]);
    let mut events = Events::open(&operator, &path, &bearer());
    events.wait_for("history");
    for path in ["/v1/pets", "/v1/pets", "/v1/pets/9"] {
        client.get(path);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    let expected = json!({"200": 2, "404": 1});
    while events.wait_for("key") != expected {
        assert!(Instant::now() < deadline);
    }
}

/// Its share of a core, which docs/operating.md states, depends on the build and on the machine; how often it wakes up does not.
#[test]
fn the_dashboard_sleeps_between_samples_and_between_messages() {
    let folder = TempDir::new().expect("a folder");
    let server = Process::serve(PROGRAM, folder.path(), &["--admin-token", TOKEN]);
    let operator = Client::new(server.admin, Some(TOKEN.into()));
    let wakes_in_five_seconds = || {
        let before = server.waits_of("admin");
        std::thread::sleep(Duration::from_secs(5));
        server.waits_of("admin") - before
    };
    let at_rest = wakes_in_five_seconds();
    let mut open: Vec<Events> = (0..4)
        .map(|_| Events::open(&operator, "/api/live", &bearer()))
        .collect();
    for events in &mut open {
        events.wait_for("sample");
    }
    let watched = wakes_in_five_seconds();
    // Twice for each timer: tokio moves one to a finer wheel first.
    assert!((4..=16).contains(&at_rest), "{at_rest}");
    assert!(watched <= 24, "{watched}");
}

/// The `Cookie` of a new session.
fn log_in(operator: &Client) -> String {
    let session = post(operator, "/api/session", &json!({"token": TOKEN}));
    let cookie = session.header("set-cookie").expect("a cookie");
    cookie.split(';').next().unwrap_or_default().to_owned()
}

#[test]
fn logging_out_ends_the_stream_of_the_session() {
    let (_app, operator, _) = start();
    let anonymous = operator.with_key(None);
    let cookie = log_in(&anonymous);
    let mut events = Events::open(&anonymous, "/api/live", &format!("Cookie: {cookie}"));
    events.wait_for("sample");
    let own = format!("http://{}", anonymous.address);
    let out = anonymous.request("DELETE", "/api/session");
    let out = out.header("Cookie", &cookie).header("Origin", &own).send();
    assert_eq!(out.status, 204, "{out}");
    let ended = Instant::now();
    while events.next().is_some() {
        assert!(
            ended.elapsed() < Duration::from_secs(5),
            "the stream continues"
        );
    }
}

#[test]
fn an_event_is_sent_once() {
    let folder = TempDir::new().expect("a folder");
    let server = Process::serve(PROGRAM, folder.path(), &["--admin-token", TOKEN]);
    let operator = Client::new(server.admin, Some(TOKEN.into()));
    let anyone = operator.with_key(None);
    Events::open(&operator, "/api/live", &bearer()).wait_for("sample");
    // All in the second before the stream begins.
    let cookie = log_in(&anyone);
    let wrong = json!({"token": "wrong"});
    for _ in 0..3 {
        post(&anyone, "/api/session", &wrong).is_error(401, "invalid_admin_token");
    }
    let mut events = Events::open(&anyone, "/api/live", &format!("Cookie: {cookie}"));
    let (mut texts, mut samples) = (Vec::new(), 0);
    while samples < 3 {
        let (name, data) = events.next().expect("the stream goes on");
        samples += usize::from(name == "sample");
        let shown = data.as_array().filter(|_| name == "events");
        let shown = shown.into_iter().flatten();
        texts.extend(shown.map(|event| format!("{} {}", event["message"], event["count"])));
    }
    for once in [
        "\"logged in to the dashboard\" 1",
        "\"invalid admin token\" 3",
    ] {
        let count = texts.iter().filter(|text| *text == once).count();
        assert_eq!(count, 1, "{once}: {texts:?}");
    }
}

#[test]
fn a_script_that_opens_many_streams_ends_its_own_and_no_other() {
    let (_app, operator, _) = start();
    let session = format!("Cookie: {}", log_in(&operator.with_key(None)));
    let mut page = Events::open(&operator, "/api/live", &session);
    page.wait_for("history");
    let mut script: Vec<Events> = Vec::new();
    for _ in 0..36 {
        let mut events = Events::open(&operator, "/api/live", &bearer());
        events.wait_for("history");
        script.push(events);
    }
    let began = Instant::now();
    for events in &mut script[..32] {
        let names = std::iter::from_fn(|| events.next()).map(|(name, _)| name);
        // So that its page does not open it again, which would end the next one.
        assert_eq!(names.last().as_deref(), Some("replaced"));
    }
    assert!(began.elapsed() < Duration::from_secs(5), "the oldest end");
    for events in script[32..].iter_mut().chain([&mut page]) {
        events.wait_for("sample");
        events.wait_for("sample");
    }
}

#[test]
fn the_number_of_open_pages_is_bounded_and_a_shutdown_does_not_wait_for_them() {
    let (mut app, operator, _) = start();
    let sessions = [(); 8].map(|()| format!("Cookie: {}", log_in(&operator.with_key(None))));
    let mut open: Vec<Events> = (0..32)
        .map(|number| Events::open(&operator, "/api/live", &sessions[number / 4]))
        .collect();
    for events in &mut open {
        events.wait_for("history");
    }
    // One more stream, for another client: it replaces a stream of a session that has the most.
    let mut one_more = Events::open(&operator, "/api/live", &bearer());
    one_more.wait_for("history");
    open[28].wait_for("replaced");
    assert_eq!(operator.get("/metrics").status, 200);
    let began = Instant::now();
    app.stop();
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}
