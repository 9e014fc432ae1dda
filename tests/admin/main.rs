//! The admin API: who may see and change what, keys, animals, orders, and the live data.

#![expect(clippy::expect_used, reason = "a test that cannot continue has failed")]

mod access;
mod keys;
mod live;
mod log;
mod now;
mod page;
mod pets;
mod requests;
mod same;

use std::time::Duration;

use animal_store::config::Config;
use harness::{App, Client, Response};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// The token of the tests.
const TOKEN: &str = "0123456789abcdef";

/// A server with a token, a client of the admin API that has it, and a client of the API.
fn start() -> (App, Client, Client) {
    start_with(|_| {})
}

fn start_with(change: impl FnOnce(&mut Config)) -> (App, Client, Client) {
    let (app, _, client) = App::start_with(|config| {
        config.admin_token = Some(TOKEN.parse().expect("a token"));
        change(config);
    });
    let operator = Client::new(app.admin_address(), Some(TOKEN.into()));
    (app, operator, client)
}

fn post(client: &Client, path: &str, body: &Value) -> Response {
    client.request("POST", path).json(body).send()
}

/// Polls a condition until it holds.
fn eventually(what: &str, condition: impl FnMut() -> bool) {
    harness::eventually(Duration::from_secs(20), what, condition);
}
