//! Limits, bans, plans and keys: over a real socket with a clock that the test moves, against a model, and as
//! processes that talk only by the file. Each test is named by the sentence it proves.
#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

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

/// One request.
fn ask(client: &Client) -> Response {
    client.get("/v1/pets?limit=1")
}

/// So many requests, one after another.
fn ask_times(client: &Client, count: usize) -> Vec<Response> {
    client.get_times("/v1/pets?limit=1", count)
}

/// Panics unless so many requests are served.
#[track_caller]
fn served(client: &Client, count: usize) {
    for response in ask_times(client, count) {
        assert_eq!(response.status, 200, "{response}");
    }
}

/// Panics unless so many requests are refused because a window is used up. Gives the last response.
#[track_caller]
fn refused(client: &Client, count: usize) -> Response {
    let mut responses = ask_times(client, count);
    for response in &responses {
        response.is_error(429, "rate_limited");
    }
    responses.pop().expect("a response")
}

/// Panics unless the key is banned, and gives the response.
#[track_caller]
fn banned(client: &Client) -> Response {
    let response = ask(client);
    response.is_error(429, "key_banned");
    response
}

/// Seconds after which a refused client may come again.
fn retry_after(refusal: &Response) -> Duration {
    Duration::from_secs(refusal.number("retry-after").unsigned_abs())
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Moves the clock to so many seconds after the epoch.
fn set(app: &App, seconds: i64) {
    app.clock.set(Timestamp::from_secs(seconds));
}

/// The same client, after a restart has given the server another address.
fn again(app: &App, client: &Client) -> Client {
    app.client(client.key.clone())
}

/// Gives a key another plan in the store.
fn set_plan(app: &App, id: KeyId, plan: Plan) {
    let set = app.block_on(animal_store::keys::set_plan(app.store(), id, plan));
    assert!(set.is_ok(), "{set:?}");
}

/// Asks until the response is as promised, for no longer than promised, and gives it.
#[track_caller]
fn within_a_second(what: &str, client: &Client, yes: impl Fn(&Response) -> bool) -> Response {
    let mut last = None;
    harness::eventually(harness::promised(), what, || yes(last.insert(ask(client))));
    last.expect("a response")
}
