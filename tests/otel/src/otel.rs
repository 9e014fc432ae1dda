//! Traces: what a collector receives from a server that is built with the feature `otel`.
//! Each test is named by the sentence it proves.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue has failed"
)]

mod collector;
mod dropped;
mod export;
mod parents;

use std::net::TcpListener;

use harness::{Client, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

use collector::Collector;

const PROGRAM: &str = "ANIMAL_STORE_OTEL_BIN";

fn program() -> String {
    std::env::var(PROGRAM).unwrap_or_else(|_| {
        panic!("{PROGRAM} names no program built with --features otel: run ./test otel")
    })
}

/// A server, a client with a key, and the collector that the server exports to.
struct TracedServer {
    process: Process,
    client: Client,
    collector: Collector,
    key: String,
    // Dropped last: the server uses it.
    _folder: TempDir,
}

/// Starts a server that exports to a new collector, with these options and environment variables.
fn deploy(args: &[&str], vars: &[(&str, &str)]) -> TracedServer {
    deploy_to(Collector::start(), "http", args, vars)
}

/// The same with this collector, which is reached by `http` or `https`.
fn deploy_to(
    collector: Collector,
    scheme: &str,
    args: &[&str],
    vars: &[(&str, &str)],
) -> TracedServer {
    let url = format!("{scheme}://{}", collector.address);
    let mut all = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url),
        // Sooner than the default of 5 s.
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ];
    all.extend(vars);
    let folder = TempDir::new().expect("a folder");
    let (process, key) = serve(&folder, args, &all);
    TracedServer {
        client: process.client(Some(&key)),
        process,
        collector,
        key,
        _folder: folder,
    }
}

/// Starts a server in this folder, and issues a key.
fn serve(folder: &TempDir, args: &[&str], vars: &[(&str, &str)]) -> (Process, String) {
    let process = Process::serve_with(&program(), folder.path(), args, vars);
    let database = args
        .iter()
        .skip_while(|word| **word != "--database")
        .take(2);
    let create = ["keys", "create", "--name", "a", "--plan", "business"];
    let create = create.iter().chain(database).copied().collect::<Vec<_>>();
    let created = harness::run(&program(), folder.path(), &create).exits(0);
    let key = created.stdout.trim().to_owned();
    // The server looks a new key up in the store, which is a span that only this request has.
    assert_eq!(
        process.client(Some(&key)).get("/v1/store/orders").status,
        200
    );
    (process, key)
}

/// A parent for a request: the trace ID, the ID of the span, and the header.
fn parent(number: u64, flags: &str) -> (String, String, String) {
    let (trace, span) = (format!("{number:032x}"), format!("{:016x}", number + 1));
    let header = format!("00-{trace}-{span}-{flags}");
    (trace, span, header)
}

fn rex() -> Value {
    json!({"name": "Rex", "categoryId": 1})
}

/// An address at which nothing listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}
