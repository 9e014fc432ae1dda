//! A server as a separate process, and changes made with the command line while it runs.

use std::time::Duration;

use harness::{Client, Operator, Process, Response, eventually};
use serde_json::Value;

use crate::{retry_after, secs, send, served, within_propagation_time};

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// One request per day: unlike a minute, a day does not end during a test.
const ONE_A_DAY: [&str; 6] = [
    "--plan",
    "enterprise",
    "--per-minute",
    "1000",
    "--per-day",
    "1",
];

/// An operator and a running server.
struct ManagedServer {
    server: Process,
    operator: Operator,
}

impl ManagedServer {
    fn open(args: &[&str]) -> Self {
        let operator = Operator::new(PROGRAM);
        let server = Self::serve(&operator, args);
        Self { server, operator }
    }

    fn serve(operator: &Operator, args: &[&str]) -> Process {
        let all: Vec<_> = ["--no-first-key"].iter().chain(args).copied().collect();
        operator.serve(&all)
    }

    /// Kills the server as a crash would, and starts it again.
    fn crash(&mut self, args: &[&str]) {
        self.server.kill();
        self.server = Self::serve(&self.operator, args);
    }

    /// What `animal-store keys …` prints.
    fn keys(&self, args: &[&str]) -> String {
        let all: Vec<_> = ["keys"].iter().chain(args).copied().collect();
        let output = self.operator.run(&all).exits(0);
        output.stdout.trim_end().to_owned()
    }

    fn json(&self, args: &[&str]) -> Value {
        let all: Vec<_> = args.iter().chain(&["--json"]).copied().collect();
        serde_json::from_str(&self.keys(&all)).expect("JSON")
    }

    /// A client with a new key, whose ID is 1 if it is the first.
    fn create(&self, plan: &[&str]) -> Client {
        let all: Vec<_> = ["create", "--name", "me"]
            .iter()
            .chain(plan)
            .copied()
            .collect();
        self.server.client(Some(&self.keys(&all)))
    }
}

/// Sends requests until the key is banned, and returns the first response that reports the ban. A minute may end meanwhile.
fn get_banned(client: &Client) -> Response {
    let is_ban = |response: &Response| response.status == 429 && response.code() == "key_banned";
    let mut responses = (0..20).map(|_| send(client));
    responses.find(is_ban).expect("a ban")
}

#[test]
fn a_key_created_with_the_command_line_works_immediately() {
    let managed = ManagedServer::open(&[]);
    for _ in 0..3 {
        served(&managed.create(&["--plan", "pro"]), 1);
    }
}

#[test]
fn a_revoked_key_is_rejected_within_a_second() {
    let managed = ManagedServer::open(&[]);
    let key = managed.create(&["--plan", "free"]);
    served(&key, 1);
    managed.keys(&["revoke", "1"]);
    let response = within_propagation_time("the end", &key, |response| response.status == 401);
    response.is_error(401, "invalid_api_key");
}

#[test]
fn the_new_secret_of_a_rotated_key_works_immediately_and_the_old_one_until_the_grace_period_ends() {
    let managed = ManagedServer::open(&[]);
    let first = managed.create(&["--plan", "free"]);
    served(&first, 1);
    let second = managed.server.client(Some(&managed.keys(&["rotate", "1"])));
    served(&second, 1);
    served(&first, 1);
    let rotated = managed.keys(&["rotate", "1", "--grace", "0s", "--yes"]);
    within_propagation_time("the end of the old", &second, |response| {
        response.status == 401
    });
    send(&first).is_error(401, "invalid_api_key");
    served(&managed.server.client(Some(&rotated)), 1);
}

#[test]
fn a_grace_period_of_a_second_ends_by_the_clock() {
    let managed = ManagedServer::open(&[]);
    let old = managed.create(&["--plan", "pro"]);
    let new = managed
        .server
        .client(Some(&managed.keys(&["rotate", "1", "--grace", "1s"])));
    eventually(secs(2), "the end of the grace period", || {
        send(&old).status == 401
    });
    served(&new, 1);
}

#[test]
fn a_new_plan_takes_effect_within_a_second() {
    let managed = ManagedServer::open(&[]);
    let key = managed.create(&ONE_A_DAY);
    served(&key, 1);
    send(&key).is_error(429, "rate_limited");
    managed.keys(&["set-plan", "1", "business"]);
    let response = within_propagation_time("the new plan", &key, |response| response.status == 200);
    assert_eq!(response.rate().0, 1_000);
    managed.keys(&[
        "set-plan",
        "1",
        "enterprise",
        "--per-minute",
        "1000",
        "--per-day",
        "2",
    ]);
    within_propagation_time("the smaller plan", &key, |response| response.status == 429);
}

#[test]
fn an_unban_takes_effect_within_a_second() {
    let managed = ManagedServer::open(&["--ban-after", "1", "--ban-for", "1h"]);
    let key = managed.create(&ONE_A_DAY);
    get_banned(&key);
    eventually(secs(5), "the ban is stored", || {
        managed.json(&["show", "1"])["state"] == "banned"
    });
    managed.keys(&["unban", "1"]);
    within_propagation_time("the unban", &key, |response| {
        response.code() == "rate_limited"
    });
}

#[test]
fn ban_after_and_ban_for_take_effect() {
    let managed = ManagedServer::open(&["--ban-after", "2", "--ban-for", "90s"]);
    // The ban outlasts an exhausted minute.
    let per_minute = ["--per-minute", "1", "--per-day", "1000"];
    let ban = get_banned(&managed.create(&[&["--plan", "enterprise"], &per_minute[..]].concat()));
    assert_eq!(retry_after(&ban), Duration::from_secs(90));
    let mut log = String::new();
    eventually(secs(5), "the ban is logged", || {
        log += &managed.server.log();
        log.contains(" WARN key banned key=1 until=")
    });
    let managed = ManagedServer::open(&["--ban-after", "0"]);
    let key = managed.create(&ONE_A_DAY);
    served(&key, 1);
    crate::rejected(&key, 150);
}

#[test]
fn a_key_expires_by_itself() {
    let managed = ManagedServer::open(&[]);
    let key = managed.create(&["--plan", "pro", "--expires", "1s"]);
    eventually(secs(2), "the end", || send(&key).status == 401);
    assert_eq!(managed.json(&["show", "1"])["state"], "expired");
}

#[test]
fn after_a_crash_the_stored_usage_of_the_day_and_the_stored_ban_still_apply() {
    let args = ["--ban-after", "3", "--ban-for", "1h"];
    let mut managed = ManagedServer::open(&args);
    let five_a_day = [
        "--plan",
        "enterprise",
        "--per-minute",
        "1000",
        "--per-day",
        "5",
    ];
    let (used, banned) = (managed.create(&five_a_day), managed.create(&ONE_A_DAY));
    served(&used, 3);
    get_banned(&banned);
    eventually(secs(2), "both are stored", || {
        let usage = managed.json(&["usage", "1"]);
        usage[0]["requests"] == 3 && managed.json(&["show", "2"])["state"] == "banned"
    });
    managed.crash(&args);
    let reconnect = |client: &Client| managed.server.client(client.key.as_deref());
    assert_eq!(send(&reconnect(&used)).rate().1, 1);
    send(&reconnect(&banned)).is_error(429, "key_banned");
}
