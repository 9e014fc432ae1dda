//! A server as a process of its own, and changes made beside it with the command line.

use std::time::Duration;

use harness::{Client, Operator, Process, Response, eventually};
use serde_json::Value;

use crate::{ask, retry_after, secs, served, within_a_second};

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// Longer than any test takes, so that no minute and no day ends in it by accident: only the day's limit is used up.
const ONE_A_DAY: [&str; 6] = [
    "--plan",
    "enterprise",
    "--per-minute",
    "1000",
    "--per-day",
    "1",
];

/// An operator, and a server beside it.
struct Shop {
    server: Process,
    operator: Operator,
}

impl Shop {
    fn open(words: &[&str]) -> Self {
        let operator = Operator::new(PROGRAM);
        let server = Self::serve(&operator, words);
        Self { server, operator }
    }

    fn serve(operator: &Operator, words: &[&str]) -> Process {
        let all: Vec<_> = ["--no-first-key"].iter().chain(words).copied().collect();
        operator.serve(&all)
    }

    /// Kills the server as a crash would, and starts it again.
    fn crash(&mut self, words: &[&str]) {
        self.server.kill();
        self.server = Self::serve(&self.operator, words);
    }

    /// What `animal-store keys …` prints.
    fn keys(&self, words: &[&str]) -> String {
        let all: Vec<_> = ["keys"].iter().chain(words).copied().collect();
        let output = self.operator.run(&all).exits(0);
        output.stdout.trim_end().to_owned()
    }

    fn json(&self, words: &[&str]) -> Value {
        let all: Vec<_> = words.iter().chain(&["--json"]).copied().collect();
        serde_json::from_str(&self.keys(&all)).expect("JSON")
    }

    /// A new key, number 1 if it is the first.
    fn create(&self, plan: &[&str]) -> Client {
        let all: Vec<_> = ["create", "--name", "me"]
            .iter()
            .chain(plan)
            .copied()
            .collect();
        self.server.client(Some(&self.keys(&all)))
    }
}

/// Asks until the key is banned, and gives the response that says so first. A minute may end meanwhile.
fn provoke(client: &Client) -> Response {
    let is_ban = |response: &Response| response.status == 429 && response.code() == "key_banned";
    let mut responses = (0..20).map(|_| ask(client));
    responses.find(is_ban).expect("a ban")
}

#[test]
fn a_key_made_with_the_command_line_works_at_once() {
    let shop = Shop::open(&[]);
    for _ in 0..3 {
        served(&shop.create(&["--plan", "pro"]), 1);
    }
}

#[test]
fn a_revoked_key_is_refused_within_a_second() {
    let shop = Shop::open(&[]);
    let key = shop.create(&["--plan", "free"]);
    served(&key, 1);
    shop.keys(&["revoke", "1"]);
    let response = within_a_second("the end", &key, |response| response.status == 401);
    response.is_error(401, "invalid_api_key");
}

#[test]
fn a_rotated_key_has_its_new_secret_at_once_and_its_old_one_until_the_grace_ends() {
    let shop = Shop::open(&[]);
    let first = shop.create(&["--plan", "free"]);
    served(&first, 1);
    let second = shop.server.client(Some(&shop.keys(&["rotate", "1"])));
    served(&second, 1);
    served(&first, 1);
    let rotated = shop.keys(&["rotate", "1", "--grace", "0s", "--yes"]);
    within_a_second("the end of the old", &second, |response| {
        response.status == 401
    });
    ask(&first).is_error(401, "invalid_api_key");
    served(&shop.server.client(Some(&rotated)), 1);
}

#[test]
fn a_grace_of_a_second_ends_by_the_clock() {
    let shop = Shop::open(&[]);
    let old = shop.create(&["--plan", "pro"]);
    let new = shop
        .server
        .client(Some(&shop.keys(&["rotate", "1", "--grace", "1s"])));
    eventually(secs(2), "the end of the grace", || ask(&old).status == 401);
    served(&new, 1);
}

#[test]
fn a_new_plan_takes_effect_within_a_second() {
    let shop = Shop::open(&[]);
    let key = shop.create(&ONE_A_DAY);
    served(&key, 1);
    ask(&key).is_error(429, "rate_limited");
    shop.keys(&["set-plan", "1", "business"]);
    let response = within_a_second("the new plan", &key, |response| response.status == 200);
    assert_eq!(response.rate().0, 1_000);
    shop.keys(&[
        "set-plan",
        "1",
        "enterprise",
        "--per-minute",
        "1000",
        "--per-day",
        "2",
    ]);
    within_a_second("the smaller plan", &key, |response| response.status == 429);
}

#[test]
fn an_unbanned_key_takes_effect_within_a_second() {
    let shop = Shop::open(&["--ban-after", "1", "--ban-for", "1h"]);
    let key = shop.create(&ONE_A_DAY);
    provoke(&key);
    eventually(secs(1), "the ban is stored", || {
        shop.json(&["show", "1"])["state"] == "banned"
    });
    shop.keys(&["unban", "1"]);
    within_a_second("the unban", &key, |response| {
        response.code() == "rate_limited"
    });
}

#[test]
fn ban_after_and_ban_for_take_effect() {
    let shop = Shop::open(&["--ban-after", "2", "--ban-for", "90s"]);
    // The ban outlasts a used-up minute.
    let per_minute = ["--per-minute", "1", "--per-day", "1000"];
    let ban = provoke(&shop.create(&[&["--plan", "enterprise"], &per_minute[..]].concat()));
    assert_eq!(retry_after(&ban), Duration::from_secs(90));
    let shop = Shop::open(&["--ban-after", "0"]);
    let key = shop.create(&ONE_A_DAY);
    served(&key, 1);
    crate::refused(&key, 150);
}

#[test]
fn a_key_that_expires_ends_by_itself() {
    let shop = Shop::open(&[]);
    let key = shop.create(&["--plan", "pro", "--expires", "1s"]);
    eventually(secs(2), "the end", || ask(&key).status == 401);
    assert_eq!(shop.json(&["show", "1"])["state"], "expired");
}

#[test]
fn after_a_crash_the_days_use_and_the_ban_that_were_stored_still_hold() {
    let words = ["--ban-after", "3", "--ban-for", "1h"];
    let mut shop = Shop::open(&words);
    let five_a_day = [
        "--plan",
        "enterprise",
        "--per-minute",
        "1000",
        "--per-day",
        "5",
    ];
    let (used, banned) = (shop.create(&five_a_day), shop.create(&ONE_A_DAY));
    served(&used, 3);
    provoke(&banned);
    eventually(secs(2), "both are stored", || {
        let usage = shop.json(&["usage", "1"]);
        usage[0]["requests"] == 3 && shop.json(&["show", "2"])["state"] == "banned"
    });
    shop.crash(&words);
    let again = |client: &Client| shop.server.client(client.key.as_deref());
    assert_eq!(ask(&again(&used)).rate().1, 1);
    ask(&again(&banned)).is_error(429, "key_banned");
}
