//! `/docs` in a real browser: a key is entered, every operation is tried, and nothing is loaded from elsewhere.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

mod browser;
mod shop;

use std::time::{Duration, Instant};

use browser::Browser;
use harness::{Process, eventually, run};
use serde_json::json;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a click may have no effect.
const AGAIN: Duration = Duration::from_secs(2);

#[test]
fn a_key_can_be_entered_and_every_operation_tried_and_nothing_comes_from_elsewhere() {
    let folder = TempDir::new().expect("a folder");
    run(PROGRAM, folder.path(), &["migrate"]).exits(0);
    let key = run(
        PROGRAM,
        folder.path(),
        &["keys", "create", "--name", "page", "--plan", "pro"],
    )
    .exits(0)
    .stdout;
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let origin = format!("http://{}", server.address);
    let browser = Browser::start(folder.path());

    browser.open(&format!("{origin}/"));
    eventually(TIMEOUT, "all operations are shown", || {
        browser.run(
            "return document.querySelectorAll('.opblock').length",
            json!([]),
        ) == 4
    });
    browser.click(".authorize");
    browser.fill(".auth-container input", key.trim());
    browser.click(".auth-btn-wrapper .authorize");
    browser.click(".auth-btn-wrapper .btn-done");

    assert_eq!(try_out(&browser, "createPet"), "201");
    assert_eq!(try_out(&browser, "listPets"), "200");
    browser.click("[id$='-getPet'] .opblock-summary-control");
    browser.fill("[id$='-getPet'] input[placeholder='petId']", "1");
    assert_eq!(execute(&browser, "getPet"), "200");

    assert_eq!(try_out(&browser, "listOrders"), "200");
    let marked = "return document.querySelector(\"[id$='-listOrders']\").textContent.match(/x-stability\\W*beta/) !== null";
    assert_eq!(
        browser.run(marked, json!([])),
        true,
        "an operation that may change says so"
    );

    browser.screenshot();
    let loaded = browser.run(
        "return performance.getEntriesByType('resource').map(entry => entry.name)",
        json!([]),
    );
    let loaded: Vec<&str> = loaded
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|url| url.as_str())
        .collect();
    assert!(
        loaded.len() > 4 && loaded.iter().all(|url| url.starts_with(&origin)),
        "{loaded:?}"
    );
    assert_eq!(
        browser.complaints(),
        Vec::<String>::new(),
        "the console is silent: the policy was never in the way"
    );
}

fn try_out(browser: &Browser, operation: &str) -> String {
    browser.click(&format!("[id$='-{operation}'] .opblock-summary-control"));
    execute(browser, operation)
}

/// Executes an open operation and gives the status of its response. The page takes a click before it has filled the form and
/// then does nothing; so, as a person would, it is clicked again when nothing has come of it for a while.
fn execute(browser: &Browser, operation: &str) -> String {
    let status =
        format!("[id$='-{operation}'] .live-responses-table .response .response-col_status");
    let mut response = String::new();
    let mut clicked: Option<Instant> = None;
    eventually(TIMEOUT, &status, || {
        if clicked.is_none_or(|at| at.elapsed() > AGAIN) {
            browser.click(&format!("[id$='-{operation}'] .execute"));
            clicked = Some(Instant::now());
        }
        response = browser.text(&status);
        !response.is_empty()
    });
    response
}
