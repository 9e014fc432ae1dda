//! A page of another origin that calls the API, in a real browser.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use harness::{Process, run};
use serde_json::json;
use tempfile::TempDir;

use crate::PROGRAM;
use crate::browser::Browser;

/// Serves an empty page on a port of its own, which makes it another origin.
pub(crate) fn shop() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        // A browser may open connections that it does not use.
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let page = "<!doctype html><title>Shop</title><link rel=icon href=data:,>";
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
                let _ = stream.read(&mut [0; 4096]);
                let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len());
            });
        }
    });
    origin
}

/// Lists, creates with an Idempotency-Key, and repeats a list until it is rejected. Returns what the page could read.
const CALLS: &str = r"
    const [base, key] = arguments;
    const headers = {Authorization: `Bearer ${key}`};
    const listed = await fetch(`${base}/v1/pets`, {headers});
    const created = await fetch(`${base}/v1/pets`, {
        method: 'POST',
        headers: {...headers, 'Content-Type': 'application/json', 'Idempotency-Key': 'one'},
        body: JSON.stringify({name: 'Rex', categoryId: 1}),
    });
    let last;
    do last = await fetch(`${base}/v1/pets`, {headers}); while (last.status === 200);
    const missing = await fetch(`${base}/v1/pets`);
    return {
        listed: [listed.status, await listed.json(), listed.headers.get('X-RateLimit-Remaining')],
        created: [created.status, (await created.json()).id, created.headers.get('Location')],
        last: [last.status, (await last.json()).code, Number(last.headers.get('Retry-After')) > 0],
        missing: [missing.status, (await missing.json()).code],
    };
";

#[test]
fn a_page_of_a_listed_origin_lists_creates_and_reads_when_to_retry_and_another_gets_nothing() {
    let folder = TempDir::new().expect("a folder");
    run(PROGRAM, folder.path(), &["migrate"]).exits(0);
    let create = [
        "keys",
        "create",
        "--name",
        "shop",
        "--plan",
        "enterprise",
        "--per-minute",
        "5",
        "--per-day",
        "100000",
    ];
    let key = run(PROGRAM, folder.path(), &create).exits(0).stdout;
    let (listed, other) = (shop(), shop());
    let server = Process::serve(PROGRAM, folder.path(), &["--cors-origin", &listed]);
    let base = format!("http://{}", server.address);
    let browser = Browser::start(folder.path());

    browser.open(&other);
    let rejected = "return fetch(`${arguments[0]}/v1/pets`).then(() => 'read', () => 'rejected')";
    assert_eq!(browser.run(rejected, json!([base])), "rejected");

    browser.open(&listed);
    let calls = format!("return (async function () {{{CALLS}}}).apply(null, arguments)");
    let seen = browser.run(&calls, json!([base, key.trim()]));
    assert_eq!(
        seen,
        json!({
            "listed": [200, [], "4"],
            "created": [201, 1, format!("{base}/v1/pets/1")],
            "last": [429, "rate_limited", true],
            "missing": [401, "missing_api_key"],
        })
    );
}
