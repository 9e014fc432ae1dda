//! Compares responses with the OpenAPI document: their status, and each of their headers.

use std::sync::LazyLock;

use animal_store::api::document::Document;
use serde_json::Value;

use crate::Response;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_slice(&Document::new(None, None).json).expect("JSON"));

/// Headers of HTTP itself, which the document does not list. The last one is added by a proxy in front.
const OF_HTTP: [&str; 6] = [
    "vary",
    "date",
    "content-length",
    "content-type",
    "connection",
    "server",
];

/// Panics unless the document describes this response to this request. A request that is not an operation of the document is ignored.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, response: &Response) {
    let template = match path.strip_prefix("/v1/pets") {
        _ if path == "/v1/store/orders" => "/store/orders",
        Some("") => "/pets",
        Some(rest) if rest.len() > 1 && rest.starts_with('/') && !rest[1..].contains('/') => {
            "/pets/{petId}"
        }
        _ => return,
    };
    let method = if method == "HEAD" {
        "get"
    } else {
        &method.to_ascii_lowercase()
    };
    let operation = &DOCUMENT["paths"][template][method];
    if operation.is_null() {
        return;
    }
    let documented = resolve(&operation["responses"][response.status.to_string()]);
    assert!(
        documented.is_object(),
        "the document does not describe this status: {response}"
    );
    if response.status >= 400 && !response.body.is_empty() {
        let examples = documented["content"]["application/json"]["examples"].as_object();
        let mut examples = examples.expect("examples").values().map(resolve);
        assert!(
            examples.any(|example| example["value"]["code"] == response.code()),
            "the document does not describe this code with this status: {response}"
        );
    }
    let headers = documented["headers"].as_object().expect("headers");
    for (name, _) in &response.headers {
        let known = headers.keys().any(|known| known.eq_ignore_ascii_case(name));
        assert!(
            known || OF_HTTP.contains(&name.as_str()) || name.starts_with("access-control-"),
            "the document does not describe {name}: {response}"
        );
    }
    for (name, header) in headers {
        let required = resolve(header)["required"] == true;
        let sent = response.header(&name.to_ascii_lowercase()).is_some();
        assert!(
            sent || !required,
            "the document requires {name}: {response}"
        );
    }
}

/// Resolves a `$ref`.
fn resolve(value: &Value) -> &Value {
    match value["$ref"].as_str() {
        Some(reference) => resolve(DOCUMENT.pointer(&reference[1..]).expect("a component")),
        None => value,
    }
}
