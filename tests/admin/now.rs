//! The numbers of the view "Now".

use std::collections::HashMap;
use std::time::{Duration, Instant};

use harness::{Client, enterprise};
use serde_json::{Value, json};

use crate::live::{Events, bearer, numbers};
use crate::{post, start, start_with};

/// The samples of a server, one each second.
struct Samples {
    events: Events,
    names: Value,
}

type Sample = HashMap<String, f64>;

impl Samples {
    fn open(operator: &Client) -> Self {
        let mut events = Events::open(operator, "/api/live", &bearer());
        let names = events.wait_for("history")["names"].clone();
        Self { events, names }
    }

    fn next(&mut self) -> Sample {
        numbers(&self.names, &self.events.wait_for("sample"))
    }

    /// The next samples, until their sum contains all of these, or for 20 seconds.
    #[track_caller]
    fn contain(&mut self, expected: &[&str]) -> Vec<Sample> {
        let (mut seen, began) = (Vec::new(), Instant::now());
        let has = |seen: &[Sample], name: &str| seen.iter().any(|sample| sample[name] > 0.0);
        while !expected.iter().all(|name| has(&seen, name)) {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{expected:?}: {seen:?}"
            );
            seen.push(self.next());
        }
        seen
    }
}

#[test]
fn every_request_counts_wherever_it_leads() {
    let (app, operator, client) = start_with(|config| config.max_connections_per_address = 4);
    let mut samples = Samples::open(&operator);
    samples.next();
    // Paths and methods without an operation, and a page without a key.
    for _ in 0..10 {
        assert_eq!(app.anonymous().get("/v1/nothing").status, 401);
        client.get("/v1/nothing").is_error(404, "not_found");
        let wrong = client.request("DELETE", "/v1/pets").send();
        wrong.is_error(405, "method_not_allowed");
        assert_eq!(app.anonymous().get("/docs").status, 200);
    }
    let mut held: Vec<_> = (0..4).map(|_| client.connect()).collect();
    for connection in &mut held {
        let live = client.request("GET", "/livez").send_on(connection);
        assert_eq!(live.status, 200, "{live}");
    }
    let one_more = client.request("GET", "/v1/pets");
    let rejected = one_more.send_on(&mut client.connect());
    rejected.is_error(503, "unavailable");
    let seen = samples.contain(&["unauthorized", "clientErrors", "succeeded", "failed"]);
    let sum = |name: &str| seen.iter().map(|sample| sample[name]).sum::<f64>();
    assert!(
        sum("clientErrors") > sum("unauthorized"),
        "404 and 405: {seen:?}"
    );
    assert!(samples.next()["connections"] >= 4.0);
    drop(held);
    crate::eventually("the connections are closed", || {
        samples.next()["connections"] < 4.0
    });
    // Health checks do not count as requests of clients.
    crate::eventually("nothing is going on", || samples.next()["succeeded"] == 0.0);
    assert_eq!(app.anonymous().get("/livez").status, 200);
    for _ in 0..2 {
        assert!(samples.next()["succeeded"] <= 0.0);
    }
}

#[test]
fn limits_bans_commits_and_waiting_writes_are_shown() {
    let (app, operator, client) = start();
    let mut samples = Samples::open(&operator);
    let began = Instant::now();
    (0..4).for_each(|_| drop(samples.next()));
    assert!(
        began.elapsed() >= Duration::from_millis(2_500),
        "one each second"
    );
    let limited = app.key(enterprise(2, 500));
    for _ in 0..110 {
        limited.get("/v1/pets");
    }
    let seen = samples.contain(&["limited", "bans"]);
    let sum = |name: &str| seen.iter().map(|sample| sample[name]).sum::<f64>();
    assert!(sum("limited") > 10.0 * sum("bans"), "{seen:?}");
    assert!(
        seen.iter().all(|sample| sample["failed"] <= 0.0),
        "{seen:?}"
    );

    client.create_many(20);
    let seen = samples.contain(&["commits", "rows"]);
    // One after the other, so each has its commit.
    for sample in seen.iter().filter(|sample| sample["rows"] > 0.0) {
        assert!(
            (sample["rows"] - sample["commits"]).abs() <= 3.0,
            "{sample:?}"
        );
        // Other commits store usage.
        assert!(
            (sample["rows"] - sample["creatingCommits"]).abs() <= 0.1,
            "{sample:?}"
        );
    }

    let sql_client = app.sql_client();
    sql_client.lock_all();
    // PostgreSQL has several transactions at once, and each takes what is waiting.
    let creating = [(); 12].map(|()| {
        std::thread::sleep(Duration::from_millis(20));
        let client = client.clone();
        std::thread::spawn(move || client.create(&json!({"name": "Rex", "categoryId": 1})))
    });
    samples.contain(&["waiting"]);
    sql_client.unlock();
    for creating in creating {
        creating.join().expect("a response");
    }
    crate::eventually("no write is waiting", || samples.next()["waiting"] <= 0.0);
}

#[test]
fn cache_hits_are_the_part_of_what_was_sent_that_came_from_the_cache() {
    let (_app, operator, client) = start();
    client.create_many(2);
    let pet = json!({"status": "available"});
    assert_eq!(post(&operator, "/api/pets/1/status", &pet).status, 200);
    let mut samples = Samples::open(&operator);
    let mut hits = |paths: &[&str]| {
        samples.next();
        for _ in 0..20 {
            paths.iter().for_each(|path| drop(client.get(path)));
        }
        let seen = samples.contain(&["succeeded"]);
        let known: Vec<f64> = seen
            .iter()
            .filter_map(|sample| sample.get("hits").copied())
            .collect();
        known.iter().sum::<f64>() / known.len() as f64
    };
    client.get("/v1/pets/1");
    // An ID that no animal has is not in the cache; and nothing is sent.
    let all = hits(&["/v1/pets/1", "/v1/pets/9", "/v1/pets/10"]);
    assert!(all > 0.8, "{all}");
    // A page with nothing after it is never in the cache; and what is not an ID is not looked up.
    let none = hits(&["/v1/pets", "/v1/pets/x", "/v1/pets/y", "/v1/pets/z"]);
    assert!(none < 0.2, "{none}");
}
