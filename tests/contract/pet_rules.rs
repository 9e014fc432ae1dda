//! The rules of an animal: which fields a creation must have, and their values.

use harness::App;
use serde_json::json;

use crate::body::send;

#[test]
fn missing_fields_and_invalid_values_are_400_and_the_message_names_the_field() {
    let (_app, _, key) = App::start();
    for (body, field) in [
        (json!({"categoryId": 1}), "name is missing"),
        (json!({"name": null, "categoryId": 1}), "name must"),
        (json!({"name": 1, "categoryId": 1}), "name must"),
        (json!({"name": true, "categoryId": 1}), "name must"),
        (json!({"name": ["Rex"], "categoryId": 1}), "name must"),
        (json!({"name": {}, "categoryId": 1}), "name must"),
        (json!({"name": "a"}), "categoryId is missing"),
        (json!({"name": "a", "categoryId": null}), "categoryId must"),
        (json!({"name": "a", "categoryId": "1"}), "categoryId must"),
        (json!({"name": "a", "categoryId": true}), "categoryId must"),
        (json!({"name": "a", "categoryId": [1]}), "categoryId must"),
        (json!({"name": "a", "categoryId": {}}), "categoryId must"),
        (
            json!({"name": "a", "categoryId": 1, "status": null}),
            "status must",
        ),
        (
            json!({"name": "a", "categoryId": 1, "status": "lost"}),
            "status must",
        ),
        (
            json!({"name": "a", "categoryId": 1, "status": "Sold"}),
            "status must",
        ),
        (
            json!({"name": "a", "categoryId": 1, "status": ""}),
            "status must",
        ),
        (
            json!({"name": "a", "categoryId": 1, "status": 1}),
            "status must",
        ),
        (
            json!({"name": "a", "categoryId": 1, "status": ["sold"]}),
            "status must",
        ),
    ] {
        let response = key.create(&body);
        let message = response.is_error(400, "invalid_body").message();
        assert!(message.contains(field), "{body}: {message}");
        for other in ["name", "categoryId", "status"] {
            let named = message.contains(&format!("{other} must"))
                || message.contains(&format!("{other} is missing"));
            assert_eq!(named, field.starts_with(other), "{body}: {message}");
        }
    }
}

#[test]
fn a_category_with_a_fraction_or_beyond_int64_is_400_and_the_message_names_it() {
    let (_app, _, key) = App::start();
    for number in [
        "1.5",
        "-0.1",
        "15e-1",
        "9223372036854775808",
        "-9223372036854775809",
        "9223372036854775807.5",
        "1e19",
        "1e999",
    ] {
        let response = send(&key, format!(r#"{{"name":"a","categoryId":{number}}}"#));
        let message = response.is_error(400, "invalid_body").message();
        assert!(message.contains("categoryId must"), "{number}: {message}");
    }
}

#[test]
fn a_name_that_is_empty_or_blank_or_has_control_characters_is_400() {
    let (_app, _, key) = App::start();
    for name in [
        "",
        " ",
        "\t",
        "\n",
        "\u{a0}\u{2003}\u{3000}",
        "a\nb",
        "a\tb",
        "\u{0}",
        "Rex\u{7f}",
        "\u{85}Rex",
        "Rex\u{9f}",
        "\u{1b}[31m",
        "\u{ad}",
        "\u{200b}\u{200d}",
        "\u{2800}",
        "\u{3164}",
        "\u{feff} \u{2800}\u{fe0f}",
        "\u{e0061}",
        "\u{e0fff}",
    ] {
        let response = key.create(&json!({"name": name, "categoryId": 1}));
        let message = response.is_error(400, "invalid_body").message();
        assert!(message.contains("name must not"), "{name:?}: {message}");
    }
}

#[test]
fn every_problem_of_a_body_is_reported_in_one_message() {
    let (_app, _, key) = App::start();
    let body = r#"{"name":"","categoryId":1.5,"status":null,"x":1,"x":2}"#;
    let response = send(&key, body);
    let message = response.is_error(400, "invalid_body").message();
    for part in [
        "name must",
        "categoryId must",
        "status must",
        "x must be given at most once",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let response = send(&key, "{}");
    let message = response.is_error(400, "invalid_body").message();
    assert!(message.contains("name is missing") && message.contains("categoryId is missing"));
}
