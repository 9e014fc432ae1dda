//! Each state of the dashboard can be used by everyone: its views, and what is rare, such as dialogs, empty lists and failures.

use harness::{Client, Process};
use serde_json::json;
use tempfile::TempDir;

use crate::accessibility::{is_accessible, is_accessible_too};
use crate::browser::{Browser, ENTER};
use crate::dashboard::{Dashboard, TOKEN, get_banned};
use crate::{PROGRAM, eventually};

#[test]
fn axe_finds_nothing_in_dialogs_empty_lists_and_failures() {
    let mut dashboard = Dashboard::open(&["--admin-token", TOKEN]);
    let browser = &dashboard.browser;
    dashboard.log_in("wrong");
    browser.wait_for("#login .problem", "invalid");
    is_accessible_too(browser, "a failed login");
    browser.run("document.querySelector('#token').value = ''", json!([]));
    dashboard.log_in(TOKEN);
    browser.wait_for(".top nav [aria-current]", "Now");

    for view in ["animals", "orders"] {
        dashboard.show(&format!("#{view}"));
        browser.wait_for(&format!("#{view}-range"), &format!("No {view} yet."));
        is_accessible_too(browser, &format!("no {view}"));
    }
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "of 1");
    browser.fill("#keys-search", "nobody");
    browser.wait_for("#keys-range", "No keys");
    is_accessible_too(browser, "no keys");

    browser.click("#create-key");
    browser.fill("#field-name", "shop");
    browser.press(ENTER);
    let secret = browser.wait_for("#secret", "as_");
    is_accessible_too(browser, "a secret");
    browser.click("#dialog-cancel");

    let client = dashboard.client(&secret);
    client.create_many(1);
    get_banned(&client);
    let operator = Client::new(dashboard.server.admin, Some(TOKEN.into()));
    eventually("the ban is stored", || {
        operator.get("/api/keys/2").json()["state"] == "banned"
    });
    dashboard.show("#keys/2");
    browser.wait_for("#key-details", "banned");
    is_accessible_too(browser, "a banned key");
    for action in ["rotate", "revoke"] {
        browser.click(&format!("#key-{action}"));
        is_accessible_too(browser, &format!("the question before {action}"));
        browser.click("#dialog-cancel");
    }

    dashboard.show("#animals");
    browser.wait_for("#animals", "pet 1");
    browser.click("[aria-label='Set status of animal 1']");
    is_accessible_too(browser, "the question for a status");
    browser.click("#dialog-cancel");

    dashboard.show("#keys/9");
    browser.wait_for("#key-note", "There is no key with this ID.");
    is_accessible_too(browser, "an unknown key");
    browser.run(
        "report(new Failure(0, 'The server does not respond.'))",
        json!([]),
    );
    is_accessible_too(browser, "a failure");
    dashboard.show("#now");
    browser.wait_for("#tiles", "Memory");
    dashboard.server.kill();
    let browser = &dashboard.browser;
    browser.wait_for("#lost:not([hidden])", "connection to the server is lost");
    is_accessible_too(browser, "a lost connection");

    let folder = TempDir::new().expect("a folder");
    let open = Process::serve(PROGRAM, folder.path(), &[]);
    browser.open(&format!("http://{}", open.admin));
    browser.wait_for("#read-only:not([hidden])", "--admin-token-file");
    browser.wait_for("#tiles", "Memory");
    is_accessible_too(browser, "read-only");
}

#[test]
fn a_browser_that_does_not_keep_the_cookie_of_the_session_is_told_so() {
    let options = ["--admin-token", TOKEN];
    let dashboard = Dashboard::open_in(&options, Browser::start_without_cookies);
    dashboard.log_in(TOKEN);
    dashboard.browser.wait_for(
        "#login .problem",
        "The browser did not keep the session cookie: allow cookies for this address, or use HTTPS.",
    );
    let focused = "return document.activeElement.id";
    assert_eq!(dashboard.browser.run(focused, json!([])), "token");
}

#[test]
fn the_lines_of_a_plot_can_be_told_apart_with_forced_colors() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let forced = json!({"features": [{"name": "forced-colors", "value": "active"}]});
    browser.devtools("Emulation.setEmulatedMedia", forced);
    browser.wait_for("#plots figcaption", "succeeded");
    let colors = "return new Set([...document.querySelectorAll('#plots figure:first-child i')] \
                  .map(mark => getComputedStyle(mark).borderTopColor)).size";
    assert_eq!(browser.run(colors, json!([])), 5);
}

#[test]
fn axe_finds_no_problems_in_any_view() {
    let dashboard = Dashboard::open(&["--admin-token", TOKEN]);
    let browser = &dashboard.browser;
    browser.wait_for("#login-title", "Log in");
    is_accessible(browser, "logging in");
    dashboard.log_in(TOKEN);
    browser.wait_for(".top nav [aria-current]", "Now");
    let client = dashboard.client(&dashboard.create_key("shop"));
    client.create_many(3);
    dashboard.show("#now");
    browser.wait_for("#tiles", "Memory");
    browser.wait_for("#events", "key created");
    is_accessible(browser, "now");
    dashboard.show("#keys");
    browser.wait_for("#keys", "shop");
    is_accessible(browser, "keys");
    browser.click("#create-key");
    is_accessible(browser, "a dialog");
    browser.click("#dialog-cancel");
    dashboard.show("#keys/2");
    browser.wait_for("#key-title", "shop");
    is_accessible(browser, "a key");
    dashboard.show("#animals");
    browser.wait_for("#animals", "pet 3");
    is_accessible(browser, "animals");
    browser.click("[aria-label='Place order for animal 1']");
    browser.click("#dialog-submit");
    browser.wait_for("#animals", "pending");
    dashboard.show("#orders");
    browser.wait_for("#orders", "open");
    is_accessible(browser, "orders");
    dashboard.has_no_console_errors();
}
