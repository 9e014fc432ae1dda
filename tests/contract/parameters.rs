//! The query parameters of a list: which values are taken, and what is said of the others.

use harness::{App, Client};

#[track_caller]
fn refuses(key: &Client, query: &str, parameter: &str, says: &str) {
    let response = key.get(&format!("/v1/pets?{query}"));
    let message = response.is_error(400, "invalid_parameter").message();
    assert!(
        message.starts_with(parameter) && message.contains(says),
        "{query}: {message}"
    );
}

#[test]
fn a_limit_out_of_range_or_not_a_number_is_400_and_the_message_says_what_it_takes() {
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
        refuses(
            &key,
            &format!("limit={limit}"),
            "limit",
            "must be between 1 and 100",
        );
    }
    refuses(&key, "limit", "limit", "must be between 1 and 100");
}

#[test]
fn an_unknown_status_is_400_and_the_message_says_what_it_takes() {
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
        refuses(&key, &query, "status", "available, pending, sold");
    }
    refuses(&key, "status", "status", "available, pending, sold");
}

#[test]
fn a_broken_cursor_is_400_and_the_message_names_it() {
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
        refuses(&key, &format!("cursor={cursor}"), "cursor", "Link");
    }
    for place in 0..whole.len() {
        let mut broken = whole.to_owned();
        let other = if &broken[place..=place] == "a" {
            "b"
        } else {
            "a"
        };
        broken.replace_range(place..=place, other);
        refuses(&key, &format!("cursor={broken}"), "cursor", "Link");
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
        refuses(&key, &query, name, "must be given at most once");
    }
    refuses(
        &key,
        "limit=5&%6Cimit=6",
        "limit",
        "must be given at most once",
    );
}

#[test]
fn unknown_parameters_are_ignored_however_often_they_come() {
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
fn a_bad_parameter_is_noticed_only_after_authentication() {
    let (_app, anyone, _) = App::start();
    anyone
        .get("/v1/pets?limit=0")
        .is_error(401, "missing_api_key");
}
