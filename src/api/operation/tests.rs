use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::api::document::Document;

fn route<'a>(method: &str, path: &'a str) -> Route<'a> {
    Route::of(&method.parse().unwrap(), path)
}

/// The rows as text: `GET /pets listPets stable`.
fn rows() -> BTreeSet<String> {
    let row = |operation: Operation| {
        let OperationRow {
            name,
            method,
            path,
            stability,
        } = operation.row();
        let stability = match stability {
            Stability::Stable => "stable".to_owned(),
            Stability::Beta => "beta".to_owned(),
            Stability::Deprecated(deprecation) => format!("until {}", deprecation.sunset.day()),
        };
        format!("{method} {path} {name} {stability}")
    };
    Operation::ALL.map(row).into()
}

#[test]
fn the_table_has_the_operations_of_the_document() {
    let document: Value = serde_json::from_slice(&Document::new(None, None).json).unwrap();
    let mut documented = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Some(name) = operation["operationId"].as_str() else {
                continue;
            };
            let marks = ["deprecated", "x-deprecated-sunset", "x-stability"];
            let stability = match marks.map(|mark| &operation[mark]) {
                [Value::Null, Value::Null, Value::Null] => "stable".to_owned(),
                [Value::Null, Value::Null, Value::String(stability)] => stability.clone(),
                [Value::Bool(true), Value::String(day), Value::Null] => format!("until {day}"),
                marks => panic!("{name}: {marks:?}"),
            };
            let method = method.to_uppercase();
            documented.insert(format!("{method} {path} {name} {stability}"));
        }
    }
    assert_eq!(rows(), documented);
}

#[test]
fn the_table_has_the_operations_that_have_a_handler_in_a_separate_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
    let mut handled = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        // The file of a handler begins with its method and path.
        let first = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("//! `"));
        let Some((target, _)) = first.and_then(|line| line.split_once('`')) else {
            continue;
        };
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(text.contains(&format!("async fn {name}(")), "{name}");
        handled.insert((target.to_owned(), name.replace('_', "")));
    }
    let rows = Operation::ALL.map(|operation| {
        let OperationRow {
            name, method, path, ..
        } = operation.row();
        (format!("{method} {path}"), name.to_lowercase())
    });
    assert_eq!(handled, rows.into());
}

#[test]
fn every_row_is_routed_by_its_method_and_path() {
    for operation in Operation::ALL {
        let OperationRow { method, path, .. } = operation.row();
        let (path, parameter) = match fixed_part(path) {
            Some(fixed) => (format!("/v1{fixed}x7"), "x7"),
            None => (format!("/v1{path}"), ""),
        };
        let expected = Route::Operation(Call {
            operation,
            parameter,
        });
        assert_eq!(route(method.as_str(), &path), expected);
        if *method == Method::GET {
            assert_eq!(route("HEAD", &path), expected);
        }
    }
}

#[test]
fn another_method_gets_the_methods_of_the_path_in_allow() {
    for (path, allowed) in [
        ("/v1/pets", "GET, HEAD, POST"),
        ("/v1/pets/7", "GET, HEAD"),
        ("/v1/store/orders", "GET, HEAD"),
    ] {
        for method in ["PUT", "DELETE", "OPTIONS", "get", "X"] {
            let expected = Route::WrongMethod { allowed };
            assert_eq!(route(method, path), expected, "{method} {path}");
        }
    }
    assert_eq!(route("POST", "/livez"), Route::PublicWrongMethod);
}

#[test]
fn a_preflight_is_for_the_methods_of_its_path() {
    for (path, methods) in [
        ("/v1/pets", "GET, HEAD, POST"),
        ("/v1/pets/7", "GET, HEAD"),
        ("/v1/unknown", ALL_METHODS),
        ("/openapi.json", "GET, HEAD"),
        ("/unknown", "GET, HEAD"),
    ] {
        let expected = Route::Preflight { methods };
        assert_eq!(route("OPTIONS", path).preflight(), expected, "{path}");
    }
    for operation in Operation::ALL {
        let OperationRow { method, path, .. } = operation.row();
        for methods in [ALL_METHODS, allowed(path)] {
            assert!(methods.split(", ").any(|one| one == method), "{path}");
        }
    }
}

#[test]
fn any_other_path_is_unknown() {
    for path in [
        "/v1",
        "/v1/",
        "/v1/petsx",
        "/v1/pets/",
        "/v1/pets/7/x",
        "/v1/store",
        "/v1/store/orders/",
        "/v1/orders",
    ] {
        assert_eq!(route("GET", path), Route::Unknown, "{path}");
    }
    for path in ["/v1x", "/v2/pets", "/pets", "*", "", "/docsx"] {
        assert_eq!(route("GET", path), Route::PublicUnknown, "{path}");
    }
    assert_eq!(
        route("GET", "/docs/a.css"),
        Route::Public(PublicResource::Docs)
    );
}

#[test]
fn a_path_with_a_route_has_a_template_and_only_those_under_v1_need_a_key() {
    for (path, template, is_api) in [
        ("/v1/pets", Some("/v1/pets"), true),
        ("/v1/pets/7", Some("/v1/pets/{petId}"), true),
        ("/v1/store/orders", Some("/v1/store/orders"), true),
        ("/v1/unknown", None, true),
        ("/", Some("/"), false),
        ("/docs", Some("/docs"), false),
        ("/llms.txt", Some("/docs"), false),
        ("/openapi.json", Some("/openapi.json"), false),
        ("/openapi.yaml", Some("/openapi.yaml"), false),
        ("/livez", Some("/livez"), false),
        ("/readyz", Some("/readyz"), false),
        ("/unknown", None, false),
    ] {
        let route = route("GET", path);
        assert_eq!(
            (route.template(), route.is_api()),
            (template, is_api),
            "{path}"
        );
    }
    assert!(route("PUT", "/v1/pets").is_api());
    assert!(!route("PUT", "/livez").is_api());
    assert!(!route("OPTIONS", "/v1/pets").preflight().is_api());
}
