//! Requests that are sent from the page.

use std::path::Path;

use harness::Client;
use serde_json::json;

use crate::browser::ENTER;
use crate::slow::{HANG, HOLD, RELEASE, RESTORE};
use crate::{Docs, eventually, section};

#[test]
fn a_key_is_entered_and_every_operation_is_sent_and_nothing_comes_from_elsewhere() {
    let docs = Docs::open(1000);
    let browser = &docs.browser;
    // An icon is for the tab, not for the page.
    let loaded = "return performance.getEntriesByType('resource').map(entry => new URL(entry.name).pathname) \
                  .filter(path => !path.includes('/icon-'))";
    let files = browser.run(loaded, json!([]));
    let files = files.as_array().expect("a list");
    assert!(
        files.len() <= 2,
        "three requests with the page itself: {files:?}"
    );

    let without = docs.send("listPets");
    assert!(without.contains("401") && without.contains("missing_api_key"));
    docs.enter_key();
    let created = docs.send("createPet");
    assert!(created.starts_with("201 Created"), "{created}");
    let result = |operation: &str| browser.text(&format!("{} .result", section(operation)));
    let seen = result("createPet");
    assert!(
        seen.contains("\"id\": 1,") && seen.contains("/v1/pets/1"),
        "{seen}"
    );
    for operation in ["listPets", "getPet"] {
        assert!(docs.send(operation).starts_with("200"), "{operation}");
        assert!(result(operation).contains("\"name\": \"Rex\""));
    }
    assert!(docs.send("listOrders").starts_with("200"));

    // A second animal, and the second page.
    browser.run(
        "document.querySelector('#try-createPet-body').value = '{\"name\":\"Big\",\"categoryId\":9007199254740993}'",
        json!([]),
    );
    assert!(docs.send("createPet").starts_with("201"));
    assert!(
        result("createPet").contains("9007199254740993"),
        "no digit of a large number is lost"
    );
    browser.fill("#try-listPets-limit", "1");
    docs.send("listPets");
    browser.click(&format!("{} .next", section("listPets")));
    browser.wait_for(&format!("{} .result", section("listPets")), "Big");
    browser.fill("#try-listPets-limit", "x");
    let rejected = docs.send("listPets");
    assert!(
        rejected.contains("400") && rejected.contains("invalid_parameter"),
        "{rejected}"
    );

    let elsewhere = "return performance.getEntriesByType('resource').map(entry => entry.name)";
    for url in browser
        .run(elsewhere, json!([]))
        .as_array()
        .expect("a list")
    {
        let url = url.as_str().expect("a URL");
        assert!(url.starts_with(&docs.origin()), "{url}");
    }
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

#[test]
fn the_key_is_in_the_examples_and_in_this_tab_only() {
    let docs = Docs::open(1000);
    let browser = &docs.browser;
    let example = "#createPet-example-sh code";
    assert!(browser.text(example).contains("YOUR_API_KEY"));
    assert!(
        browser
            .text(example)
            .contains(&format!("{}/v1/pets", docs.origin()))
    );
    docs.enter_key();
    assert!(
        browser
            .text(example)
            .contains(&format!("Bearer {}", docs.key))
    );
    let places = "return [location.href, document.cookie, \
                  document.querySelector('#secret').value].join()";
    let places = browser.run(places, json!([]));
    assert!(!places.to_string().contains(&docs.key), "{places}");
    let kept = browser.run("return localStorage.length", json!([]));
    assert_eq!(kept, 0, "by this tab only");
    docs.show("/docs");
    assert!(browser.text(example).contains(&docs.key), "after a reload");
    browser.click(".forget");
    assert!(browser.text(example).contains("YOUR_API_KEY"));
    docs.show("/docs");
    assert!(browser.text(example).contains("YOUR_API_KEY"));

    let permission = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
    browser.devtools("Browser.grantPermissions", permission);
    browser.click("#createPet-example-sh .copy");
    browser.wait_for("#createPet-example-sh .copy", "Copied");
    let copied = browser.run("return navigator.clipboard.readText()", json!([]));
    assert_eq!(copied, browser.text(example));
}

#[test]
fn what_cannot_be_a_key_is_rejected_in_plain_words_and_the_key_in_use_stays() {
    let docs = Docs::open(1000);
    let browser = &docs.browser;
    docs.enter_key();
    for (entered, problem) in [
        ("", "No key was entered."),
        ("ключ", "a key has only letters from A to Z, digits and _."),
    ] {
        browser.fill("#secret", &format!("{entered}{ENTER}"));
        let state = browser.wait_for("#key .state", problem);
        assert!(state.contains(&docs.key[..8]), "{state}");
        assert!(docs.send("listPets").starts_with("200"), "after {entered}");
    }
    browser.fill("#try-listPets-X-Request-Id", &format!("ключ{ENTER}"));
    let line = format!("{} .line", section("listPets"));
    let rejected = browser.wait_for(&line, "Not sent");
    assert!(
        rejected.contains("X-Request-Id has characters that a header cannot have"),
        "{rejected}"
    );
}

#[test]
fn another_filter_starts_with_its_first_page_and_next_page_continues_the_list_that_is_shown() {
    let docs = Docs::open(1000);
    let browser = &docs.browser;
    Client::new(docs.server.address, Some(docs.key.clone())).create_many(3);
    docs.enter_key();
    let result = format!("{} .result", section("listPets"));
    let next = format!("{} .next", section("listPets"));
    let choose = |status: &str| {
        let focus = "document.querySelector('#try-listPets-status').focus()";
        browser.run(focus, json!([]));
        browser.press(status);
    };
    let send = |expected: &str| {
        let line = docs.send("listPets");
        assert!(line.starts_with("200"), "{line}");
        browser.wait_for(&result, expected);
    };
    browser.run(
        "document.querySelector('section[aria-labelledby=listPets] details').open = true",
        json!([]),
    );
    browser.fill("#try-listPets-limit", "1");
    send("pet 1");
    browser.click(&next);
    browser.wait_for(&result, "pet 2");
    choose("available");
    send("pet 1");

    choose("sold");
    browser.click(&next);
    browser.wait_for(&result, "pet 2");
    let status = "return document.querySelector('#try-listPets-status').value";
    assert_eq!(browser.run(status, json!([])), "available");
}

#[test]
fn a_form_has_one_request_at_a_time_and_shows_no_earlier_response_meanwhile() {
    let docs = Docs::open(1000);
    let browser = &docs.browser;
    Client::new(docs.server.address, Some(docs.key.clone())).create_many(2);
    docs.enter_key();
    let form = section("listPets");
    let [line, result] = ["line", "result"].map(|part| format!("{form} .{part}"));
    docs.send("listPets");
    browser.wait_for(&result, "pet 2");
    browser.run(HOLD, json!(["/v1/pets"]));
    // The second Enter sends nothing.
    browser.fill("#try-listPets-limit", &format!("1{ENTER}{ENTER}"));
    browser.wait_for(&line, "Waiting…");
    assert_eq!(browser.text(&result), "");
    let waiting = "const button = document.querySelector(arguments[0]); \
                   return [button.disabled, getComputedStyle(button).opacity, held.length]";
    let submit = format!("{form} [type=submit]");
    let waiting = browser.run(waiting, json!([submit]));
    assert_eq!(waiting, json!([true, "0.5", 1]));
    browser.run(RELEASE, json!([]));
    browser.wait_for(&line, "200");
    let shown = browser.text(&result);
    assert!(
        shown.contains("pet 1") && !shown.contains("pet 2"),
        "{shown}"
    );
}

#[test]
fn a_name_does_not_change_the_direction_of_the_response_that_is_shown() {
    let docs = Docs::open(1000);
    let client = Client::new(docs.server.address, Some(docs.key.clone()));
    client.create(&json!({"name": "abc\u{202e}def\u{2066}", "categoryId": 7}));
    docs.enter_key();
    docs.send("listPets");
    let body = docs
        .browser
        .text(&format!("{} .result code", section("listPets")));
    assert!(body.contains(r#""name": "abc\u202edef\u2066""#), "{body}");
}

#[test]
fn a_request_that_hangs_fails_and_can_be_sent_again() {
    let docs = Docs::open(1000);
    docs.enter_key();
    docs.browser.run(HANG, json!([]));
    let form = section("listPets");
    let open = format!("document.querySelector('{form} details').open = true");
    docs.browser.run(&open, json!([]));
    docs.browser.click(&format!("{form} [type=submit]"));
    docs.browser
        .wait_for(&format!("{form} .line"), "No response: signal timed out");
    docs.browser.run(RESTORE, json!([]));
    assert!(docs.send("listPets").starts_with("200"));
}

#[test]
fn the_budget_of_a_key_is_hidden_as_soon_as_the_key_is_no_longer_used() {
    let docs = Docs::open(1000);
    let browser = &docs.browser;
    let is_shown = || {
        browser.run(
            "return !document.querySelector('.budget').hidden",
            json!([]),
        )
    };
    docs.enter_key();
    docs.send("listPets");
    assert_eq!(is_shown(), true);
    browser.click(".forget");
    assert_eq!(is_shown(), false);
    docs.enter_key();
    docs.send("listPets");
    browser.run(HOLD, json!(["/v1/pets"]));
    browser.click(&format!("{} [type=submit]", section("listPets")));
    let line = format!("{} .line", section("listPets"));
    browser.wait_for(&line, "Waiting…");
    browser.fill("#secret", &format!("another{ENTER}"));
    browser.wait_for("#key .state", "another");
    assert_eq!(is_shown(), false);
    browser.run(RELEASE, json!([]));
    browser.wait_for(&line, "200");
    assert_eq!(is_shown(), false, "a late response of the other key");
}

#[test]
fn large_numbers_of_the_budget_have_separators() {
    let docs = Docs::open(10_000);
    docs.enter_key();
    docs.send("listPets");
    let budget = docs.browser.text(".budget p");
    assert!(budget.starts_with("9,999 of 10,000 left"), "{budget}");
    let spoken = "return document.querySelector('.gauge').ariaValueText";
    assert_eq!(
        docs.browser.run(spoken, json!([])),
        "9,999 of 10,000 requests"
    );
}

#[test]
fn the_budget_falls_until_a_429_counts_down() {
    let docs = Docs::open(5);
    docs.enter_key();
    let browser = &docs.browser;
    let gauge = "const gauge = document.querySelector('.gauge'); \
                 return [gauge.ariaValueNow, gauge.ariaValueMax, gauge.firstElementChild.style.width]";
    let mut seen = Vec::new();
    // The minute may end once.
    let rejected = (0..12).find_map(|_| {
        let line = docs.send("listPets");
        seen.push(browser.run(gauge, json!([])));
        line.starts_with("429").then_some(line)
    });
    let rejected = rejected.expect("a 429");
    assert!(seen.contains(&json!(["4", "5", "80%"])), "{seen:?}");
    assert!(seen.contains(&json!(["1", "5", "20%"])), "{seen:?}");
    assert_eq!(seen.last(), Some(&json!(["0", "5", "0%"])));
    assert!(rejected.contains("rate_limited"), "{rejected}");
    let link = format!("{} .line a", section("listPets"));
    let href = browser.run(
        "return document.querySelector(arguments[0]).hash",
        json!([link]),
    );
    assert_eq!(href, "#errors-rate_limited");

    let timer = format!("{} [role=timer]", section("listPets"));
    let first = browser.text(&timer);
    assert!(
        first.starts_with("Retry in ") || first.starts_with("You can"),
        "{first}"
    );
    eventually("a countdown", || browser.text(&timer) != first);
    assert!(browser.text(".budget p").contains("0 of 5 left"));
}

#[test]
fn pictures_of_the_page_are_in_the_docs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let pictures = ["docs-desktop.png", "docs-phone.png"];
    if std::env::var_os("ANIMAL_STORE_TEST_WRITE").is_some() {
        let docs = Docs::open(60);
        // No picture shows a key.
        let script = "useKey(arguments[0]); for (const place of document.querySelectorAll('b.origin')) \
                      place.textContent = 'https://animals.example'";
        let hide = "sessionStorage.clear(); for (const [place, placeholder] of keys) place.textContent = placeholder";
        for (picture, width, height, scheme) in [
            (pictures[0], 1280, 640, "light"),
            (pictures[1], 390, 720, "dark"),
        ] {
            docs.browser.set_viewport(width, height, scheme);
            docs.show("/docs#createPet");
            docs.browser.run(script, json!([docs.key]));
            docs.send("createPet");
            docs.browser.run(hide, json!([]));
            let place = "document.activeElement.blur(); document.querySelector('#createPet').scrollIntoView(); \
                         document.querySelector('section[aria-labelledby=createPet] .try').scrollIntoView({block: arguments[0]})";
            let block = if width < 500 { "start" } else { "end" };
            docs.browser.run(place, json!([block]));
            docs.browser.screenshot(&folder.join(picture));
        }
    }
    for picture in pictures {
        let size = folder
            .join(picture)
            .metadata()
            .expect("ANIMAL_STORE_TEST_WRITE=1 ./test page")
            .len();
        assert!((10_000..150_000).contains(&size), "{picture}: {size}");
    }
}
