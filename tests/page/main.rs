//! The pages in a real browser. On `/docs` a key is entered, every operation is tried, and nothing is loaded from elsewhere. Its
//! examples are run as they are shown.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue has failed"
)]

mod accessibility;
mod browser;
mod cors;
mod dashboard;
mod docs_accessibility;
mod examples;
mod keyboard;
mod large_ids;
mod lists;
mod names;
mod search;
mod slow;
mod states;
mod stream_messages;
mod streams;
mod try_it;

use std::path::Path;
use std::time::Duration;

use browser::Browser;
use harness::{Process, run};
use serde_json::json;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");
const TIMEOUT: Duration = Duration::from_secs(30);

/// Polls a condition of a page until it holds. Not as often as [`harness::eventually`]: each poll takes the browser milliseconds.
#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    harness::eventually(TIMEOUT, what, || {
        condition() || {
            std::thread::sleep(Duration::from_millis(40));
            false
        }
    });
}

/// A server, a key for it, and a browser that shows its docs.
struct Docs {
    browser: Browser,
    server: Process,
    key: String,
    _folder: TempDir,
}

impl Docs {
    /// With a key that may send this many requests per minute.
    fn open(per_minute: u32) -> Self {
        Self::open_in(per_minute, Browser::start)
    }

    fn open_in(per_minute: u32, start: impl FnOnce(&Path) -> Browser) -> Self {
        let folder = TempDir::new().expect("a folder");
        run(PROGRAM, folder.path(), &["migrate"]).exits(0);
        let args = format!(
            "keys create --name page --plan enterprise --per-minute {per_minute} --per-day 100000"
        );
        let args: Vec<&str> = args.split(' ').collect();
        let key = run(PROGRAM, folder.path(), &args).exits(0).stdout;
        let server = Process::serve(PROGRAM, folder.path(), &[]);
        let docs = Self {
            browser: start(folder.path()),
            server,
            key: key.trim().to_owned(),
            _folder: folder,
        };
        docs.show("/docs");
        docs
    }

    /// Opens a path of the server.
    fn show(&self, path: &str) {
        // A page that differs only in its fragment is not loaded again.
        self.browser.open("about:blank");
        self.browser.open(&format!("{}{path}", self.origin()));
    }

    fn origin(&self) -> String {
        format!("http://{}", self.server.address)
    }

    fn enter_key(&self) {
        self.browser.fill("#secret", &self.key);
        self.browser.press(browser::ENTER);
        self.browser.wait_for("#key .state", &self.key[..8]);
    }

    /// Sends an operation with what its form contains, and returns the line with the status.
    fn send(&self, operation: &str) -> String {
        let section = section(operation);
        let script = "document.querySelector(arguments[0]).open = true; \
                      document.querySelector(arguments[1]).replaceChildren()";
        let line = format!("{section} .line");
        let details = format!("{section} details");
        self.browser.run(script, json!([details, line]));
        self.browser.click(&format!("{section} [type=submit]"));
        self.browser.wait_for(&line, " ms")
    }
}

/// The section of an operation.
fn section(operation: &str) -> String {
    format!("section[aria-labelledby={operation}]")
}
