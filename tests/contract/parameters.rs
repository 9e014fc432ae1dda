//! The query parameters of a list: which values are valid, and the errors of the others.

use harness::{App, Client};

#[track_caller]
fn rejects(key: &Client, query: &str, parameter: &str, problem: &str) {
    let response = key.get(&format!("/v1/pets?{query}"));
    let message = response.is_error(400, "invalid_parameter").message();
    assert!(
        message.starts_with(parameter) && message.contains(problem),
        "{query}: {message}"
    );
}

#[test]
fn a_limit_out_of_range_or_not_a_number_is_400_and_the_message_lists_the_valid_values() {
    let (_app, _, key) = App::start();
    for limit in [
        "0",
        "101",
        "-1",
        "+5",
        "05",
        "5.0",
        "1e1",
        "0x5",
        "five",
        "",
        "%205",
        "5%20",
        "5,6",
        "256",
        "261",
        "99999999999999999999",
        "%D9%A5",
        "null",
        "%",
        "%zz",
    ] {
        rejects(
            &key,
            &format!("limit={limit}"),
            "limit",
            "must be an integer from 1 to 100, without a sign or leading zeros",
        );
    }
    rejects(
        &key,
        "limit",
        "limit",
        "must be an integer from 1 to 100, without a sign or leading zeros",
    );
}

#[test]
fn an_unknown_status_is_400_and_the_message_lists_the_valid_values() {
    let (_app, _, key) = App::start();
    for status in [
        "Sold",
        "lost",
        "",
        "sold%20",
        "sold,pending",
        "%00",
        "null",
        "1",
        "%ff",
    ] {
        let query = format!("status={status}");
        rejects(&key, &query, "status", "available, pending, sold");
    }
    rejects(&key, "status", "status", "available, pending, sold");
}

#[test]
fn an_invalid_cursor_is_400_and_the_message_names_it() {
    let (_app, _, key) = App::start();
    key.create_many(2);
    let next = key.get("/v1/pets?limit=1").next().unwrap();
    let (_, whole) = next.split_once("cursor=").unwrap();
    assert_eq!(key.get(&format!("/v1/pets?cursor={whole}")).ids(), [2]);

    let (shorter, longer) = (&whole[1..], format!("{whole}0"));
    let upper = whole.to_uppercase();
    for cursor in [
        shorter, &longer, &upper, "", "1", "0", "-1", "%00", "\u{25}ff", "next",
    ] {
        rejects(&key, &format!("cursor={cursor}"), "cursor", "Link");
    }
    for place in 0..whole.len() {
        let mut invalid = whole.to_owned();
        let other = if &invalid[place..=place] == "a" {
            "b"
        } else {
            "a"
        };
        invalid.replace_range(place..=place, other);
        rejects(&key, &format!("cursor={invalid}"), "cursor", "Link");
    }
}

#[test]
fn a_parameter_given_twice_is_400_even_with_the_same_value() {
    let (_app, _, key) = App::start();
    key.create_many(2);
    let next = key.get("/v1/pets?limit=1").next().unwrap();
    let (_, cursor) = next.split_once("cursor=").unwrap();
    for (name, value) in [("limit", "5"), ("status", "sold"), ("cursor", cursor)] {
        let query = format!("{name}={value}&x=1&{name}={value}");
        rejects(&key, &query, name, "must be given at most once");
    }
    rejects(
        &key,
        "limit=5&%6Cimit=6",
        "limit",
        "must be given at most once",
    );
}

#[test]
fn unknown_parameters_are_ignored_however_often_they_are_sent() {
    let (_app, _, key) = App::start();
    key.create_many(2);
    for query in [
        "", "&&", "=", "x", "x=1&x=2", "Limit=0", "offset=1", "page=9", "%zz=1", "a=%ff",
    ] {
        let list = key.get(&format!("/v1/pets?{query}&limit=1"));
        assert_eq!(list.ids(), [1], "{query}");
    }
}

#[test]
fn percent_encoded_names_and_values_are_what_they_encode() {
    let (_app, _, key) = App::start();
    key.create_many(3);
    assert_eq!(key.get("/v1/pets?limi%74=%32").ids(), [1, 2]);
    assert_eq!(key.get("/v1/pets?status=s%6fl%64").ids(), [0; 0]);
    assert_eq!(key.get("/v1/pets?%73tatus=%61vailable").ids(), [1, 2, 3]);
}

#[test]
fn an_invalid_parameter_is_reported_only_after_authentication() {
    let (_app, anonymous, _) = App::start();
    anonymous
        .get("/v1/pets?limit=0")
        .is_error(401, "missing_api_key");
}
