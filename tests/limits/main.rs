//! Limits, bans, plans and keys: over a real socket with a clock that the test moves, against a model, and as
//! processes that share only the database. Each test is named by the sentence it proves.
#![expect(clippy::expect_used, reason = "a test that cannot continue has failed")]

mod address;
mod ban;
mod command;
mod headers;
mod keys;
mod many_keys;
mod model;
mod retry_after;
mod running;
mod stored;
mod threads;
mod windows;

use std::time::Duration;

use animal_store::clock::Timestamp;
use animal_store::key::KeyId;
use animal_store::plan::Plan;
use harness::{App, Client, Response};

/// The end of the minute in which a test begins, in Unix seconds.
const MINUTE_END: i64 = 1_794_830_460;

/// The end of that day, 17 November 2026, 00:00 UTC.
const DAY_END: i64 = 1_794_873_600;

/// Sends one request.
fn send(client: &Client) -> Response {
    client.get("/v1/pets?limit=1")
}

/// Sends this many requests, one after another.
fn send_many(client: &Client, count: usize) -> Vec<Response> {
    client.get_times("/v1/pets?limit=1", count)
}

/// Panics unless this many requests are served.
#[track_caller]
fn served(client: &Client, count: usize) {
    for response in send_many(client, count) {
        assert_eq!(response.status, 200, "{response}");
    }
}

/// Panics unless this many requests are rejected because a window is exhausted. Returns the last response.
#[track_caller]
fn rejected(client: &Client, count: usize) -> Response {
    let mut responses = send_many(client, count);
    for response in &responses {
        response.is_error(429, "rate_limited");
    }
    responses.pop().expect("a response")
}

/// Panics unless the key is banned, and returns the response.
#[track_caller]
fn banned(client: &Client) -> Response {
    let response = send(client);
    response.is_error(429, "key_banned");
    response
}

/// The value of `Retry-After`.
fn retry_after(rejection: &Response) -> Duration {
    Duration::from_secs(rejection.number("retry-after").unsigned_abs())
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Sets the clock to this many seconds after the epoch.
fn set(app: &App, seconds: i64) {
    app.clock.set(Timestamp::from_secs(seconds));
}

/// The same client, after a restart has given the server another address.
fn reconnect(app: &App, client: &Client) -> Client {
    app.client(client.key.clone())
}

/// Gives a key another plan in the store.
fn set_plan(app: &App, id: KeyId, plan: Plan) {
    let set = app.block_on(animal_store::keys::set_plan(app.store(), id, plan));
    assert!(set.is_ok(), "{set:?}");
}

/// Sends requests until a response satisfies the condition, within the time in which changes take effect, and returns it.
#[track_caller]
fn within_propagation_time(
    what: &str,
    client: &Client,
    condition: impl Fn(&Response) -> bool,
) -> Response {
    let mut last = None;
    harness::eventually(harness::propagation_time(), what, || {
        condition(last.insert(send(client)))
    });
    last.expect("a response")
}
