//! The OpenAPI document by itself, without a server.

use animal_store::api::document::Document;
use animal_store::pet::PetName;
use serde_json::Value;

fn document() -> Value {
    serde_json::from_slice(&Document::new(None, None).json).unwrap()
}

/// Every `$ref` below a value.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Every example of an error below a value.
fn errors<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) if fields.contains_key("code") && fields.contains_key("message") => {
            found.push(value);
        }
        Value::Object(fields) => fields.values().for_each(|value| errors(value, found)),
        _ => {}
    }
}

#[test]
fn the_pattern_of_a_name_excludes_up_to_u_ffff_exactly_what_is_blank_or_a_control_character() {
    let document = document();
    let name = &document["components"]["schemas"]["NewPet"]["properties"]["name"];
    let pattern = name["pattern"].as_str().unwrap();
    let classes: Vec<&str> = pattern.split("[^").skip(1).collect();
    let [control, unseen, again] = classes[..] else {
        panic!("{pattern}");
    };
    assert_eq!(
        control.trim_end_matches("]*"),
        again.trim_end_matches("]*$")
    );
    let (control, unseen) = (members(control), members(unseen));
    for character in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
        let is_in = |class: &[(u32, u32)]| {
            let number = u32::from(character);
            class
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&number))
        };
        assert_eq!(is_in(&control), character.is_control(), "{character:?}");
        let rejected = PetName::new(character.to_string()).is_err();
        let expected = rejected && character <= '\u{ffff}';
        assert_eq!(is_in(&unseen), expected, "{character:?}");
    }
}

/// The ranges of a class of characters, up to its closing bracket.
fn members(class: &str) -> Vec<(u32, u32)> {
    let (class, _) = class.split_once(']').unwrap();
    let mut rest = class.chars();
    let mut ranges = Vec::new();
    let mut open = false;
    while let Some(character) = rest.next() {
        let number = match character {
            '-' => {
                open = true;
                continue;
            }
            '\\' => {
                let digits = if rest.next() == Some('x') { 2 } else { 4 };
                let hex: String = rest.by_ref().take(digits).collect();
                u32::from_str_radix(&hex, 16).unwrap()
            }
            itself => itself.into(),
        };
        match ranges.last_mut() {
            Some((_, last)) if open => *last = number,
            _ => ranges.push((number, number)),
        }
        open = false;
    }
    ranges
}

#[test]
fn the_order_is_the_written_one() {
    let document = document();
    let fields: Vec<_> = document
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        fields,
        [
            "openapi",
            "info",
            "servers",
            "security",
            "tags",
            "paths",
            "components"
        ]
    );
}

#[test]
fn numbers_and_texts_keep_their_kind() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], "1.0.0");
    let category = &document["components"]["schemas"]["NewPet"]["properties"]["categoryId"];
    assert_eq!(category["minimum"], i64::MIN);
    assert_eq!(category["maximum"], i64::MAX);
    assert_eq!(
        document["components"]["headers"]["Idempotent-Replayed"]["schema"]["const"],
        "true"
    );
    assert_eq!(
        document["paths"]["/pets/{petId}"]["get"]["x-deprecated-sunset"],
        "2030-12-05"
    );
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for reference in &found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for (kind, components) in document["components"].as_object().unwrap() {
        for name in components.as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(
                kind == "securitySchemes" || found.contains(&reference.as_str()),
                "{reference} is not used"
            );
        }
    }
}

#[test]
fn every_code_has_an_example_under_its_own_status() {
    let document = document();
    let mut written: Vec<_> =
        document["components"]["schemas"]["Error"]["properties"]["code"]["x-extensible-enum"]
            .as_array()
            .unwrap()
            .iter()
            .map(|code| code.as_str().unwrap())
            .collect();
    let mut examples = Vec::new();
    errors(&document["components"]["examples"], &mut examples);
    let mut shown: Vec<_> = examples
        .iter()
        .map(|error| error["code"].as_str().unwrap())
        .collect();
    written.sort_unstable();
    shown.sort_unstable();
    shown.dedup();
    assert_eq!(shown, written);

    for operation in document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap())
    {
        for (status, response) in operation.1["responses"].as_object().unwrap() {
            let response = resolve(&document, response);
            let examples = response["content"]["application/json"]["examples"]
                .as_object()
                .unwrap();
            assert!(!examples.is_empty(), "{} {status}", operation.0);
            for example in examples.values() {
                let value = &resolve(&document, example)["value"];
                if status.starts_with('2') {
                    assert!(value.get("code").is_none(), "{value}");
                } else {
                    assert_eq!(value["status"].to_string(), *status, "{value}");
                }
            }
        }
    }
}

/// Every schema that closes what it describes, by its path in the document.
fn closed(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if ["additionalProperties", "unevaluatedProperties"]
                .iter()
                .any(|name| fields.get(*name) == Some(&Value::Bool(false)))
            {
                found.push(path.to_owned());
            }
            for (name, value) in fields {
                closed(value, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| closed(item, path, found)),
        _ => {}
    }
}

#[test]
fn schemas_that_may_get_additions_are_not_closed() {
    let document = document();
    let mut found = Vec::new();
    closed(&document, "", &mut found);
    assert_eq!(found, [""; 0]);
    let code = &document["components"]["schemas"]["Error"]["properties"]["code"];
    for closing in ["enum", "const", "pattern"] {
        assert_eq!(code[closing], Value::Null, "{code}");
    }
    assert_eq!(
        document["info"]["license"]["identifier"],
        "MIT OR Apache-2.0"
    );
    assert_ne!(document["info"]["contact"]["name"], Value::Null);
}

#[test]
fn every_response_lists_the_headers_that_every_response_has() {
    let document = document();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let headers = resolve(&document, response)["headers"].as_object().unwrap();
                let mut expected = vec![
                    "X-RateLimit-Limit",
                    "X-RateLimit-Remaining",
                    "X-RateLimit-Reset",
                    "X-Request-Id",
                    "Cache-Control",
                    "X-Content-Type-Options",
                ];
                match status.as_str() {
                    "401" => expected.push("WWW-Authenticate"),
                    "405" => expected.push("Allow"),
                    "409" | "429" | "503" => expected.push("Retry-After"),
                    "201" => expected.push("Location"),
                    _ => {}
                }
                // A 405 is the response of the path, not of the deprecated operation; a 400, a 408 or a 503 may come before
                // either is known.
                if operation["deprecated"] == true
                    && !["400", "405", "408", "503"].contains(&status.as_str())
                {
                    expected.extend(["Deprecation", "Sunset", "Link"]);
                }
                for name in expected {
                    let header = headers
                        .get(name)
                        .unwrap_or_else(|| panic!("{method} {path} {status}: {name}"));
                    assert_eq!(
                        resolve(&document, header)["required"],
                        true,
                        "{method} {path} {status}: {name}"
                    );
                }
            }
        }
    }
}

/// The value itself, or the component that it refers to.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => value,
    }
}
