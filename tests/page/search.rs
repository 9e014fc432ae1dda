//! The search of `/docs`.

use serde_json::{Value, json};

use crate::Docs;
use crate::browser::{ENTER, ESCAPE};

/// Searches, and returns the line above the results and their names.
fn search(docs: &Docs, words: &str) -> (String, Vec<String>) {
    let script = "search.value = arguments[0]; search.dispatchEvent(new Event('input')); \
                  return [...document.querySelectorAll('#found a')].map(link => link.textContent)";
    let names = docs.browser.run(script, json!([words]));
    let names = names.as_array().expect("a list").iter();
    let names = names.map(|name| name.as_str().unwrap_or_default().to_owned());
    (docs.browser.text("#found p"), names.collect())
}

#[test]
fn the_best_and_most_specific_places_are_found_and_named_with_their_section() {
    let docs = Docs::open(60);
    for (words, first) in [
        ("rate_limited", "Errors: rate_limited 429"),
        ("limit", "List all animals: limit"),
        ("listpets", "List all animals"),
        ("orders cursor", "List all orders: cursor"),
        ("id", "Pet: id"),
        // In the text next to an example.
        ("grace period", "Get a key"),
    ] {
        let (_, names) = search(&docs, words);
        assert_eq!(names.first().map(String::as_str), Some(first), "{names:?}");
    }
    let (_, names) = search(&docs, "rate_limited");
    assert!(names.contains(&"List all animals: 429".to_owned()));
    for vague in ["List all animals", "List all animals: Parameters"] {
        assert!(!names.contains(&vague.to_owned()), "{names:?}");
    }
}

#[test]
fn all_results_are_shown_and_counted() {
    let docs = Docs::open(60);
    let (count, names) = search(&docs, "animal");
    assert!(names.len() > 12, "{names:?}");
    assert_eq!(count, format!("{} results", names.len()));
    assert_eq!(search(&docs, "grace period").0, "1 result");
    assert_eq!(search(&docs, "no such words").0, "Nothing found.");
}

#[test]
fn only_a_slash_without_a_modifier_opens_the_search_and_enter_in_it_needs_words() {
    let docs = Docs::open(60);
    let browser = &docs.browser;
    let is_open = || browser.run("return document.activeElement === search", json!([]));
    for modifier in ["ctrlKey", "metaKey", "altKey"] {
        let press = "return document.body.dispatchEvent(new KeyboardEvent('keydown', \
                     {key: '/', [arguments[0]]: true, bubbles: true, cancelable: true}))";
        let is_left_to_the_browser = browser.run(press, json!([modifier]));
        assert_eq!(
            (is_left_to_the_browser, is_open()),
            (json!(true), json!(false))
        );
    }
    browser.press("/");
    assert_eq!(is_open(), true);
    browser.press("rate_limited");
    browser.press(&format!("{ESCAPE}{ENTER}"));
    let hash: Value = browser.run("return location.hash", json!([]));
    assert_eq!(hash, "");
}
