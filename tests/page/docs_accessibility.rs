//! Accessibility of the page: by keyboard, with a screen reader, on a phone, in light and dark, and without JavaScript.

use serde_json::json;

use crate::accessibility::{MISPLACED, is_accessible, violations};
use crate::browser::{Browser, DOWN, ENTER, ESCAPE, RIGHT, TAB};
use crate::{Docs, section};

#[test]
fn axe_finds_no_problems_and_nothing_overlaps_in_any_state() {
    let docs = Docs::open(4);
    docs.browser.fill("#secret", ENTER);
    docs.browser.wait_for("#key .state", "No key");
    is_accessible(&docs.browser, "loaded, with an empty key");
    docs.enter_key();
    docs.send("createPet");
    docs.browser.fill("#search", "limit");
    is_accessible(&docs.browser, "with a key, a result and a search");
    docs.browser.press(ESCAPE);
    while !docs.send("listPets").starts_with("429") {}
    docs.browser.click("#listPets-example-rust-tab");
    is_accessible(&docs.browser, "after a 429, with examples in Rust");
    docs.browser.set_viewport(360, 800, "dark");
    docs.browser.click(".menu");
    for scheme in ["dark", "light"] {
        docs.browser.set_viewport(360, 800, scheme);
        assert_eq!(violations(&docs.browser), json!([]), "the menu, {scheme}");
    }
    assert_eq!(docs.browser.console_errors(), Vec::<String>::new());
}

#[test]
fn the_checks_of_the_page_would_find_a_violation_and_an_overlap() {
    let docs = Docs::open(60);
    docs.browser.run(
        "const image = document.createElement('img'); image.src = 'docs/none.svg'; \
         document.querySelector('h1').append(image); document.querySelector('h2 + p').style.marginTop = '-50px'; \
         document.querySelector('h1').style.width = '3000px'",
        json!([]),
    );
    assert!(violations(&docs.browser).to_string().contains("image-alt"));
    let found = docs.browser.run(MISPLACED, json!([]));
    let found = found.to_string();
    assert!(
        found.contains("sideways") && found.contains(" over "),
        "{found}"
    );
}

#[test]
fn everything_can_be_done_by_keyboard() {
    let docs = Docs::open(60);
    let browser = &docs.browser;
    let focus = || {
        let script = "return document.activeElement.id || document.activeElement.className || document.activeElement.tagName";
        browser
            .run(script, json!([]))
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    browser.press(TAB);
    assert_eq!(focus(), "skip");
    browser.press(ENTER);
    assert_eq!(focus(), "main");

    browser.press("/");
    assert_eq!(focus(), "search");
    browser.press("rate_limited");
    browser.wait_for("#found", "rate_limited");
    browser.press(&format!("{DOWN}{ENTER}"));
    assert_eq!(
        browser.run("return location.hash", json!([])),
        "#errors-rate_limited"
    );
    browser.wait_for("#contents [aria-current]", "Errors");

    // Every control has a place in the order of focus, and shows it.
    let unreachable = "return [...document.querySelectorAll('main button, main input, main summary, main pre, main a, main select, main textarea')] \
        .filter(element => element.checkVisibility() && element.tabIndex < 0 && element.role !== 'tab').map(element => element.outerHTML)";
    assert_eq!(browser.run(unreachable, json!([])), json!([]));
    browser.run("document.querySelector('#secret').focus()", json!([]));
    let outline = "return getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(browser.run(outline, json!([])), "solid");
    browser.press(&format!("{}{ENTER}", docs.key));
    browser.wait_for("#key .state", "In use");

    browser.run(
        "document.querySelector('#listPets-example-sh-tab').focus()",
        json!([]),
    );
    browser.press(RIGHT);
    assert_eq!(focus(), "listPets-example-python-tab");
    let shown = "return document.querySelector('#createPet-example-python').checkVisibility()";
    assert_eq!(browser.run(shown, json!([])), true, "of all examples");

    let details = format!("{} details", section("listPets"));
    let summary = "document.querySelector(arguments[0]).querySelector('summary').focus()";
    browser.run(summary, json!([details]));
    browser.press(&format!("{ENTER}{TAB}"));
    assert_eq!(focus(), "try-listPets-limit");
    browser.press(&format!("5{ENTER}"));
    browser.wait_for(&format!("{} .line", section("listPets")), "200");
}

#[test]
fn the_contents_show_the_current_section_and_every_anchor_leads_to_its_place() {
    let docs = Docs::open(60);
    let browser = &docs.browser;
    for (anchor, current) in [
        ("listPets", "List all animals"),
        ("errors-rate_limited", "Errors"),
        ("createPet-body-name", "Add an animal"),
        ("header-retry-after", "Response headers"),
        ("back-off", "Back off"),
        ("changelog", "Changelog"),
    ] {
        docs.show(&format!("/docs#{anchor}"));
        let found = browser.wait_for("#contents [aria-current]", current);
        assert!(found.contains(current), "{anchor}: {found}");
        let top = "return document.getElementById(arguments[0]).getBoundingClientRect().top";
        let top = browser.run(top, json!([anchor])).as_f64().unwrap_or(-1.0);
        assert!((56.0..900.0).contains(&top), "{anchor} is at {top}");
    }
}

#[test]
fn every_link_of_the_menu_can_be_reached_on_a_phone() {
    let docs = Docs::open(60);
    let browser = &docs.browser;
    docs.enter_key();
    // The gauge takes a part of the header.
    docs.send("listPets");
    for (width, height) in [(375, 667), (320, 568)] {
        browser.set_viewport(width, height, "light");
        browser.click(".menu");
        let covered = "return [...document.querySelectorAll('#contents a')].filter(link => { \
            link.scrollIntoView({block: 'nearest'}); \
            const {left, top, width, height} = link.getBoundingClientRect(); \
            return !link.contains(document.elementFromPoint(left + width / 2, top + height / 2)); }).map(link => link.textContent)";
        let covered = browser.run(covered, json!([]));
        assert_eq!(covered, json!([]), "{width} pixels");
        browser.click(".menu");
    }
}

#[test]
fn without_javascript_all_text_is_there() {
    let docs = Docs::open_in(60, Browser::start_without_scripts);
    let browser = &docs.browser;
    let unseen = "const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT); const unseen = []; \
        for (let node; node = walker.nextNode();) if (node.data.trim() && !node.parentElement.closest('.try, .scripted, .copy, .tabs') \
        && !node.parentElement.checkVisibility()) unseen.push(node.data); return unseen";
    assert_eq!(browser.run(unseen, json!([])), json!([]));
    for code in ["#back-off-client-rust", "#createPet-example-python"] {
        let shown = "return document.querySelector(arguments[0]).checkVisibility()";
        assert_eq!(browser.run(shown, json!([code])), true, "{code}");
    }
    for hidden in [".try", "#search", ".copy", ".menu", "#key"] {
        let shown = "return document.querySelector(arguments[0]).checkVisibility()";
        assert_eq!(browser.run(shown, json!([hidden])), false, "{hidden}");
    }
    assert!(
        browser
            .text("#createPet-example-sh code")
            .contains(&format!("{}/v1/pets", docs.origin()))
    );
    for width in [360, 768, 1440] {
        browser.set_viewport(width, 900, "light");
        assert_eq!(
            browser.run(MISPLACED, json!([])),
            json!([]),
            "{width} pixels"
        );
    }
}
