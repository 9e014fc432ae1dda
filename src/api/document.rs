//! The OpenAPI document as it is served: the hand-written `openapi.yaml`, and the same as JSON, with the URLs of this deployment
//! filled in.
//!
//! `openapi.json` is generated from `openapi.yaml`, so that the server has no parser for YAML. After changing `openapi.yaml`, run
//! `ANIMAL_STORE_TEST_WRITE=1 cargo test --lib openapi_json`.

use bytes::Bytes;
use serde_json::Value;

const YAML: &str = include_str!("openapi.yaml");
const JSON: &str = include_str!("openapi.json");

/// The items of `servers`, which differ from one deployment to the next.
const YAML_SERVERS: &str = "  - url: /v1\n    description: This server.\n";
const JSON_SERVERS: &str = r#"
    {
      "url": "/v1",
      "description": "This server."
    }"#;

#[derive(Clone, Debug)]
pub struct Document {
    /// The document as indented JSON.
    pub json: Bytes,
    pub yaml: Bytes,
}

impl Document {
    /// Makes the document of a deployment. Both URLs include `/v1`; without a public one clients find `/v1` on the server that
    /// sent them the document.
    pub fn new(public_url: Option<&str>, staging_url: Option<&str>) -> Self {
        let servers = [
            (Some(public_url.unwrap_or("/v1")), "This server."),
            (staging_url, "The staging environment."),
        ];
        let (mut yaml, mut json) = (Vec::new(), Vec::new());
        for (url, description) in servers {
            let Some(url) = url else { continue };
            // A JSON string is a YAML string too: no URL can break out of its line.
            let url = Value::from(url);
            yaml.push(format!("  - url: {url}\n    description: {description}\n"));
            json.push(
                JSON_SERVERS
                    .replace("This server.", description)
                    .replace("\"/v1\"", &url.to_string()),
            );
        }
        Self {
            json: JSON.replacen(JSON_SERVERS, &json.join(","), 1).into(),
            yaml: YAML.replacen(YAML_SERVERS, &yaml.concat(), 1).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(yaml: &[u8]) -> Value {
        serde_saphyr::from_slice(yaml).unwrap()
    }

    #[test]
    fn openapi_json_is_generated_from_openapi_yaml() {
        let expected = format!("{:#}\n", parsed(YAML.as_bytes()));
        if std::env::var_os("ANIMAL_STORE_TEST_WRITE").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api/openapi.json");
            std::fs::write(path, &expected).unwrap();
        } else {
            assert!(
                JSON == expected,
                "openapi.json is out of date: ANIMAL_STORE_TEST_WRITE=1 cargo test --lib openapi_json"
            );
        }
    }

    #[test]
    fn each_form_has_the_servers_once() {
        assert_eq!(YAML.matches(YAML_SERVERS).count(), 1);
        assert_eq!(JSON.matches(JSON_SERVERS).count(), 1);
    }

    #[test]
    fn urls_fill_servers_in_both_forms() {
        let server =
            |url, description| serde_json::json!({ "url": url, "description": description });
        for (public, staging, expected) in [
            (None, None, vec![server("/v1", "This server.")]),
            (
                Some("https://api.example.com/v1"),
                Some("https://staging.example.com/v1"),
                vec![
                    server("https://api.example.com/v1", "This server."),
                    server("https://staging.example.com/v1", "The staging environment."),
                ],
            ),
            (
                None,
                Some("https://staging.example.com/v1"),
                vec![
                    server("/v1", "This server."),
                    server("https://staging.example.com/v1", "The staging environment."),
                ],
            ),
        ] {
            let document = Document::new(public, staging);
            let json: Value = serde_json::from_slice(&document.json).unwrap();
            assert_eq!(json["servers"], Value::from(expected));
            assert_eq!(parsed(&document.yaml), json);
        }
    }

    #[test]
    fn no_url_can_break_the_document() {
        for odd in [
            "",
            "a: b",
            "x # y",
            "\"",
            "'",
            "\\",
            "{a}",
            "- x\ninfo: 1",
            "\u{85}\u{2028}\u{feff}é",
            "*x",
            "!y",
        ] {
            let document = Document::new(Some(odd), Some(odd));
            let json: Value = serde_json::from_slice(&document.json).unwrap();
            assert_eq!(json["servers"][1]["url"], odd);
            assert_eq!(parsed(&document.yaml), json);
        }
    }
}
