//! The dashboard by keyboard alone: with Tab, Enter, Space, Escape and arrows. The focus is always visible, and returns to where it
//! was.

use harness::Client;
use serde_json::{Value, json};

use crate::browser::{Browser, DOWN, ENTER, ESCAPE, SPACE, TAB, UP};
use crate::dashboard::{Dashboard, TOKEN, get_banned, sell_animal};
use crate::{TIMEOUT, eventually};

/// The maximum number of tab stops in any view.
const MAX_TAB_STOPS: usize = 150;

/// Whether the focus is on what a selector finds; whether it can be seen; and what has it.
const FOCUS: &str = r"
    const focused = document.activeElement;
    const shown = focused.id === 'main' ? document.querySelector('main > section:not([hidden]) h1') : focused;
    const { outlineStyle, outlineWidth } = getComputedStyle(shown);
    const box = shown.getBoundingClientRect();
    const visible = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && box.bottom > 0 && box.top < innerHeight;
    return [focused.matches(arguments[0]), focused === document.body || visible, focused.outerHTML.slice(0, 200)]";

struct Keyboard<'a>(&'a Browser);

impl Keyboard<'_> {
    fn press(&self, keys: &str) {
        self.0.press(keys);
    }

    /// Whether the focus is on what the selector finds, once it can be seen: the browser scrolls to it in its next frame.
    #[track_caller]
    fn is_on(&self, selector: &str) -> bool {
        let deadline = std::time::Instant::now() + TIMEOUT / 6;
        loop {
            let found: Value = self.0.run(FOCUS, json!([selector]));
            if found[1] == true {
                return found[0] == true;
            }
            let in_time = std::time::Instant::now() < deadline;
            assert!(in_time, "the focus cannot be seen: {}", found[2]);
        }
    }

    /// Moves the focus with Tab.
    #[track_caller]
    fn to(&self, selector: &str) {
        for _ in 0..MAX_TAB_STOPS {
            self.press(TAB);
            if self.is_on(selector) {
                return;
            }
        }
        panic!("Tab does not lead to {selector}");
    }

    /// Moves the focus with Tab, and presses Enter.
    #[track_caller]
    fn enter(&self, selector: &str) {
        self.to(selector);
        self.press(ENTER);
    }

    #[track_caller]
    fn returns_to(&self, selector: &str) {
        let mut last = Value::Null;
        let deadline = std::time::Instant::now() + TIMEOUT / 6;
        while std::time::Instant::now() < deadline {
            last = self.0.run(FOCUS, json!([selector]));
            if last[0] == true && last[1] == true {
                return;
            }
        }
        panic!("the focus is not on {selector}: {last}");
    }

    /// Confirms a dialog.
    #[track_caller]
    fn confirm(&self) {
        self.returns_to("#dialog *");
        self.enter("#dialog-submit");
    }
}

/// A dashboard with more keys than a page has, and with animals.
fn dashboard_with_data() -> Dashboard {
    let dashboard = Dashboard::logged_in();
    let operator = Client::new(dashboard.server.admin, Some(TOKEN.into()));
    let mut secret = Value::Null;
    for number in 0..60 {
        let body = json!({"name": format!("client {number}"), "plan": "free"});
        let created = operator.request("POST", "/api/keys").json(&body).send();
        secret = created.json()["key"].clone();
    }
    let client = dashboard.client(secret.as_str().expect("a secret"));
    client.create_many(2);
    dashboard
}

#[test]
fn a_key_is_managed_by_keyboard_from_its_creation_to_its_revocation() {
    let dashboard = dashboard_with_data();
    let browser = &dashboard.browser;
    let keyboard = Keyboard(browser);
    keyboard.enter("nav [href='#keys']");
    browser.wait_for("#keys-range", "1 to 50 of 61");
    keyboard.returns_to("main");

    keyboard.enter("#create-key");
    keyboard.returns_to("#field-name");
    keyboard.press(ESCAPE);
    keyboard.returns_to("#create-key");
    keyboard.press(SPACE);
    keyboard.returns_to("#field-name");
    keyboard.press(&format!("shop{TAB}{DOWN}"));
    keyboard.confirm();
    let secret = browser.wait_for("#secret", "as_");
    keyboard.returns_to("#dialog-body button");
    keyboard.press(SPACE);
    browser.wait_for("#dialog-body button", "Copied");
    keyboard.enter("#dialog-cancel");
    keyboard.returns_to("#create-key");

    keyboard.to("#keys-search");
    keyboard.press("shop");
    browser.wait_for("#keys-range", "1 to 1 of 1");
    browser.wait_for("#keys", "pro");
    keyboard.enter("#keys a");
    browser.wait_for("#key-title", "shop");
    keyboard.returns_to("main");

    keyboard.enter("#key-plan");
    keyboard.returns_to("#field-plan");
    keyboard.press(UP);
    keyboard.confirm();
    browser.wait_for("#key-details", "free");
    keyboard.returns_to("#key-plan");

    keyboard.enter("#key-rotate");
    keyboard.returns_to("#field-grace");
    keyboard.press(ENTER);
    let rotated = browser.wait_for("#secret", "as_");
    assert_ne!(rotated, secret);
    keyboard.returns_to("#dialog-body button");
    keyboard.enter("#dialog-cancel");
    keyboard.returns_to("#key-rotate");

    let client = dashboard.client(&rotated);
    get_banned(&client);
    let operator = Client::new(dashboard.server.admin, Some(TOKEN.into()));
    eventually("the ban is stored", || {
        operator.get("/api/keys?q=shop").json()[0]["state"] == "banned"
    });
    keyboard.enter("#view-key [href='#keys']");
    browser.wait_for("#keys", "banned");
    keyboard.returns_to("main");
    keyboard.enter("#keys a");
    browser.wait_for("#key-details", "banned");
    keyboard.enter("#key-unban");
    keyboard.returns_to("#dialog-cancel");
    keyboard.press(ESCAPE);
    keyboard.returns_to("#key-unban");
    keyboard.press(ENTER);
    keyboard.confirm();
    browser.wait_for("#key-details", "active");
    // The button is gone, and the one next to it has the focus.
    keyboard.returns_to("#view-key .actions button");

    keyboard.enter("#key-revoke");
    keyboard.returns_to("#dialog-cancel");
    keyboard.confirm();
    browser.wait_for("#key-details", "revoked");
    keyboard.returns_to("main");
    dashboard.has_no_console_errors();
}

#[test]
fn keys_are_sorted_filtered_and_paged_by_keyboard() {
    let dashboard = dashboard_with_data();
    let browser = &dashboard.browser;
    let keyboard = Keyboard(browser);
    keyboard.enter("nav [href='#keys']");
    browser.wait_for("#keys-range", "1 to 50 of 61");
    keyboard.enter("[data-sort=name]");
    browser.wait_for("#keys tr", "client 0");
    keyboard.press(SPACE);
    browser.wait_for("#keys tr", "first");
    keyboard.returns_to("[data-sort=name]");

    keyboard.enter("#keys-next");
    browser.wait_for("#keys-range", "51 to 61 of 61");
    // There is no next page, so the other button has the focus.
    keyboard.returns_to("#keys-previous");
    keyboard.press(SPACE);
    browser.wait_for("#keys-range", "1 to 50 of 61");
    keyboard.returns_to("#keys-next");

    keyboard.to("#keys-state");
    keyboard.press("rev");
    browser.wait_for("#keys-range", "No keys");
    keyboard.press(&UP.repeat(4));
    browser.wait_for("#keys-range", "1 to 50 of 61");
    keyboard.returns_to("#keys-state");
    dashboard.has_no_console_errors();
}

#[test]
fn animals_and_orders_are_managed_by_keyboard_until_the_operator_logs_out() {
    let dashboard = dashboard_with_data();
    let browser = &dashboard.browser;
    let keyboard = Keyboard(browser);
    keyboard.enter("nav [href='#animals']");
    browser.wait_for("#animals", "pet 2");
    let status = "[aria-label='Set status of animal 1']";
    keyboard.enter(status);
    keyboard.returns_to("#field-status");
    keyboard.press(&DOWN.repeat(2));
    keyboard.to("[name=force]");
    keyboard.press(SPACE);
    keyboard.enter("#dialog-submit");
    browser.wait_for("#animal-1", "sold");
    keyboard.returns_to(status);
    keyboard.press(ENTER);
    keyboard.returns_to("#field-status");
    keyboard.press(&UP.repeat(2));
    keyboard.confirm();
    browser.wait_for("#animal-1", "available");
    keyboard.returns_to(status);

    let (activate, returns_to) = (
        |to: &str| keyboard.enter(to),
        |to: &str| keyboard.returns_to(to),
    );
    sell_animal(browser, activate, returns_to);
    keyboard.enter("nav [href='#animals']");
    keyboard.to("#animals-status");
    keyboard.press("sold");
    browser.wait_for("#animals-range", "IDs 1 to 1");
    keyboard.press(&UP.repeat(3));
    browser.wait_for("#animals", "pet 2");
    keyboard.enter("[aria-label='Place order for animal 2']");
    keyboard.returns_to("#field-shipDate");
    keyboard.press(ENTER);
    browser.wait_for("#animal-2", "pending");
    keyboard.enter("nav [href='#orders']");
    browser.wait_for("#orders", "open");
    keyboard.enter("[aria-label='Cancel order 2']");
    keyboard.returns_to("#dialog-cancel");
    keyboard.confirm();
    browser.wait_for("#order-2", "cancelled");
    keyboard.returns_to("#view-orders .scroll");

    keyboard.enter("#log-out");
    keyboard.returns_to("#token");
    dashboard.has_no_console_errors();
}
