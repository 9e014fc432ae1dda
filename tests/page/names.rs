//! What the dashboard shows is read as it is meant: names of any length and direction, times, and words that are not broken.

use serde_json::{Value, json};

use crate::browser::{ENTER, ESCAPE};
use crate::dashboard::{Dashboard, TOKEN};
use harness::Client;

const REVERSED: &str = "abc\u{202e}def";

fn create_key(dashboard: &Dashboard, name: &str) -> String {
    let operator = Client::new(dashboard.server.admin, Some(TOKEN.into()));
    let body = json!({"name": name, "plan": "free"});
    let created = operator.request("POST", "/api/keys").json(&body).send();
    created.json()["key"].as_str().expect("a secret").to_owned()
}

#[test]
fn a_name_changes_neither_the_direction_nor_the_width_of_what_is_around_it() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    create_key(&dashboard, REVERSED);
    create_key(&dashboard, &"x".repeat(100));
    dashboard.show("#keys/2");
    browser.wait_for("#key-title bdi", REVERSED);
    let title = browser.run("return document.title", json!([]));
    assert_eq!(title, format!("\u{2068}{REVERSED}\u{2069} – Animal Store"));
    for action in ["plan", "rotate", "revoke"] {
        browser.click(&format!("#key-{action}"));
        browser.wait_for("#dialog-title bdi", REVERSED);
        browser.press(ESCAPE);
    }
    dashboard.show("#keys");
    browser.wait_for("#key-2 bdi", REVERSED);

    dashboard.show("#keys/3");
    browser.wait_for("#key-title", "xxx");
    browser.click("#key-revoke");
    let width = "const dialog = document.querySelector('#dialog'); return [dialog.scrollWidth - dialog.clientWidth, dialog.offsetWidth]";
    let width: Value = browser.run(width, json!([]));
    assert!(width[0] == 0 && width[1].as_i64() < Some(600), "{width}");
    dashboard.has_no_console_errors();
}

#[test]
fn a_name_is_kept_and_shown_as_it_was_entered() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    // 100 characters, most of which are two for JavaScript.
    let name = format!("a  b{}", "🐕".repeat(96));
    let fill = |field: &str| {
        browser.click(field);
        browser.devtools("Input.insertText", json!({ "text": name }));
    };
    dashboard.show("#keys");
    browser.click("#create-key");
    fill("#field-name");
    browser.press(ENTER);
    browser.wait_for("#secret", "as_");
    browser.click("#dialog-cancel");
    fill("#keys-search");
    browser.wait_for("#keys tr:first-child", &name);
    let shown = "return document.querySelector('#keys bdi').innerText";
    assert_eq!(browser.run(shown, json!([])), name);
    dashboard.has_no_console_errors();
}

#[test]
fn animals_are_found_by_id_and_orders_by_state_with_dates_that_are_the_same_everywhere() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let zone = json!({"timezoneId": "America/Los_Angeles"});
    browser.devtools("Emulation.setTimezoneOverride", zone);
    let client = dashboard.client(&create_key(&dashboard, "shop"));
    dashboard.show("#animals");
    browser.wait_for("#animals-range", "No animals yet. Create them");
    client.create_many(60);
    browser.wait_for("#animals-range", "1 to 50");
    browser.fill("#animals-id", "57");
    browser.wait_for("#animals-range", "57 to 57");
    browser.click("[aria-label='Place order for animal 57']");
    browser.fill("#field-shipDate", "2999-12-24");
    browser.press(ENTER);
    browser.wait_for("#animal-57", "pending");
    browser.click("[aria-label='Set status of animal 57']");
    browser.press("sold");
    browser.click("#dialog-submit");
    browser.wait_for(
        "#dialog .problem",
        "Animal 57 has the open order 1: complete or cancel it.",
    );
    assert!(!browser.text("#dialog .problem").contains("force"));
    browser.press(ESCAPE);
    browser.fill("#animals-id", "9");
    browser.wait_for("#animals-range", "There is no animal with this ID.");

    dashboard.show("#orders");
    browser.wait_for("#order-1", "24 Dec 2999");
    assert!(!browser.text("#order-1").contains(':'), "no time");
    for (state, shown) in [
        ("complete", "No orders are in this state."),
        ("open", "1 to 1"),
    ] {
        let script = "const select = document.querySelector('#orders-state'); select.value = arguments[0]; \
                      select.dispatchEvent(new Event('change'))";
        browser.run(script, json!([state]));
        browser.wait_for("#orders-range", shown);
    }
    browser.click("[aria-label='Cancel order 1']");
    browser.wait_for("#dialog-cancel", "Keep order");
    browser.click("#dialog-submit");
    browser.wait_for("#orders-range", "No orders are in this state.");
    dashboard.has_no_console_errors();
}

#[test]
fn words_are_not_broken_and_a_view_is_shown_from_its_top() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let client = dashboard.client(&create_key(&dashboard, "shop"));
    client.create_many(55);
    browser.set_viewport(360, 800, "light");
    for (view, name, row) in [
        ("#keys", "Keys", "#key-2"),
        ("#animals", "Animals", "#animal-50"),
    ] {
        dashboard.show(view);
        browser.wait_for(row, "a");
        let title = browser.run("return document.title", json!([]));
        assert_eq!(title, format!("{name} – Animal Store"));
        let broken = "return [...document.querySelectorAll('main > section:not([hidden]) :is(td, th):not(.name, .change)')] \
                      .filter(cell => getComputedStyle(cell).whiteSpace !== 'nowrap').length";
        assert_eq!(browser.run(broken, json!([])), 0, "{view}");
    }
    let cut = "const [last] = [...document.querySelectorAll('#animals tr:first-child button')].slice(-1); \
               return last.getBoundingClientRect().right <= innerWidth";
    assert_eq!(browser.run(cut, json!([])), true, "the buttons are cut");
    // The link of the view that is shown does not scroll to its list.
    let script = "scrollTo(0, 1000); document.querySelector('.top nav [href=\"#animals\"]').click(); \
                  return new Promise(requestAnimationFrame).then(() => scrollY)";
    assert_eq!(browser.run(script, json!([])), 0);
    dashboard.has_no_console_errors();
}
