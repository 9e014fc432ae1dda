//! Several tabs of one browser. It opens six connections to a server at most: more streams of live data would leave none for requests.

use std::time::Duration;

use crate::accessibility::is_accessible;
use crate::dashboard::Dashboard;

#[test]
fn a_tab_whose_live_data_moved_to_another_says_so_and_takes_it_back_only_when_told() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let first = browser.tab();
    browser.wait_for("#tiles", "Memory");
    let others = [(); 7].map(|()| {
        let tab = browser.open_tab();
        browser.open(&dashboard.origin());
        browser.wait_for("#tiles", "Memory");
        tab
    });
    let (replaced, current) = others.split_at(3);
    // Nothing is opened again by itself, which browsers do after three seconds, nor for another view.
    for tab in [&first].into_iter().chain(replaced) {
        browser.show_tab(tab);
        browser.wait_for("#moved:not([hidden])", "another tab");
        assert_eq!(browser.text("#ready"), "unknown");
        dashboard.show("#keys");
        browser.wait_for("#keys-range", "of 1");
    }
    std::thread::sleep(Duration::from_secs(5));
    for tab in current {
        browser.show_tab(tab);
        assert!(!dashboard.shows("#moved"));
    }
    browser.show_tab(&first);
    assert!(dashboard.shows("#moved"));
    is_accessible(browser, "with live data in another tab");

    browser.click("#resume");
    browser.wait_for("#ready.good", "ready");
    assert!(!dashboard.shows("#moved"));
    browser.show_tab(&current[0]);
    browser.wait_for("#moved:not([hidden])", "another tab");
    dashboard.has_no_console_errors();
}

#[test]
fn a_tab_that_is_reloaded_ends_the_live_data_of_no_other() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    browser.wait_for("#tiles", "Memory");
    let mut tabs = vec![browser.tab()];
    for _ in 0..3 {
        tabs.push(browser.open_tab());
        browser.open(&dashboard.origin());
        browser.wait_for("#tiles", "Memory");
    }
    for _ in 0..3 {
        browser.open(&dashboard.origin());
        browser.wait_for("#tiles", "Memory");
    }
    std::thread::sleep(Duration::from_secs(2));
    for tab in &tabs {
        browser.show_tab(tab);
        assert!(!dashboard.shows("#moved"));
    }
}
