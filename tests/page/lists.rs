//! The lists of the dashboard: which page is shown after a change of the filter or of the rows.

use crate::browser::ENTER;
use crate::dashboard::Dashboard;
use crate::eventually;
use crate::slow::{FAIL, RESTORE};

/// Shows only available animals.
const FILTER: &str = "const select = document.querySelector('#animals-status'); select.value = 'available'; \
                      select.dispatchEvent(new Event('change'))";

#[test]
fn a_list_begins_with_its_first_page_after_a_change_of_the_filter_even_if_that_read_fails() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let names: Vec<String> = (0..60).map(|number| format!("client {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let client = dashboard.client(&dashboard.with_keys(&names));
    client.create_many(60);
    dashboard.show("#animals");
    browser.wait_for("#animals-range", "1 to 50");
    browser.click("#animals-next");
    browser.wait_for("#animals-range", "51 to 60");
    dashboard.run(FAIL);
    dashboard.run(FILTER);
    browser.wait_for("#problem:not([hidden])", "does not respond");
    assert!(dashboard.shows("#animals-previous:disabled"));
    dashboard.run(RESTORE);
    browser.wait_for("#animals-range", "1 to 50");
    assert!(!dashboard.shows("#problem"));

    // The view is left before the search is sent.
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "1 to 50 of 61");
    browser.click("#keys-next");
    browser.wait_for("#keys-range", "51 to 61 of 61");
    let search = "const input = document.querySelector('#keys-search'); input.value = 'client'; \
                  input.dispatchEvent(new Event('input')); location.hash = '#now'; \
                  return new Promise((resolve) => setTimeout(resolve, 300)).then(() => null)";
    dashboard.run(search);
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "1 to 50 of 60");
    dashboard.has_no_console_errors();
}

#[test]
fn a_404_of_a_proxy_is_a_failure_and_not_an_empty_list() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    dashboard.with_keys(&["shop"]);
    dashboard.show("#keys");
    browser.wait_for("#keys-range", "1 to 2 of 2");
    let proxy = "window.realFetch = fetch; \
                 window.fetch = () => Promise.resolve(new Response('<h1>Not found</h1>', { status: 404 }))";
    dashboard.run(proxy);
    dashboard.run("load().then(() => null)");
    browser.wait_for("#problem:not([hidden])", "404");
    assert!(browser.text("#keys").contains("shop"));
    dashboard.run("window.fetch = window.realFetch");
    eventually("the problem is gone", || !dashboard.shows("#problem"));
    dashboard.has_no_console_errors();
}

#[test]
fn a_last_page_that_becomes_empty_is_not_an_empty_list() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let client = dashboard.client(&dashboard.with_keys(&["shop"]));
    client.create_many(51);
    dashboard.show("#animals");
    browser.wait_for("#animals-range", "1 to 50");
    dashboard.run(FILTER);
    browser.wait_for("#animals-next:enabled", "Next");
    browser.click("#animals-next");
    browser.wait_for("#animals-range", "51 to 51");
    browser.click("[aria-label='Place order for animal 51']");
    browser.press(ENTER);
    assert_eq!(browser.wait_for("#animals-range", "to 50"), "IDs 1 to 50");
    dashboard.has_no_console_errors();
}
