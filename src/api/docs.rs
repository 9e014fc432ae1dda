//! The reference at `/docs`, rendered ahead of time from `openapi.yaml` and `docs/api.md` (see the package `reference`), its files, and
//! its Content-Security-Policy. Nothing is loaded from elsewhere.
//!
//! After changing a source, run `ANIMAL_STORE_TEST_WRITE=1 cargo test --workspace --lib docs`.

use std::sync::OnceLock;

use super::url::BaseUrl;
use crate::http::{Asset, NamedFile, with_hashed_names};

/// The page. Its references are relative, so that it works behind a path prefix too.
const PAGE: &str = include_str!("docs/page.html");

/// The same text as Markdown.
const MARKDOWN: &str = include_str!("docs/page.md");

/// The address in the sources. Each server replaces it with its own.
const ORIGIN: &str = "http://127.0.0.1:8080";

/// The files of the page. The basics of the style are shared by all pages.
const FILES: [NamedFile; 3] = [
    (
        "docs/page.css",
        "text/css; charset=utf-8",
        concat!(
            include_str!("../assets/base.css"),
            include_str!("docs/page.css")
        ),
    ),
    (
        "docs/page.js",
        "text/javascript; charset=utf-8",
        include_str!("docs/page.js"),
    ),
    (
        "docs/icon.svg",
        "image/svg+xml",
        include_str!("../assets/icon.svg"),
    ),
];

/// The reference of a deployment.
pub(crate) struct Docs {
    /// The URL of the server without `/v1`.
    root: String,
    /// By their path. Made at the first request, so that they cost nothing at startup.
    assets: OnceLock<Vec<(String, Asset)>>,
}

impl Docs {
    /// `server` is the URL that the texts name: the public one, or that of this machine.
    pub(crate) fn new(server: &BaseUrl) -> Self {
        Self {
            root: server.root().to_owned(),
            assets: OnceLock::new(),
        }
    }

    /// Returns the file at a path: `/docs` is the page, and the same as Markdown is at `/docs/api.md` and `/llms.txt`.
    pub(crate) fn asset(&self, path: &str) -> Option<&Asset> {
        let assets = self.assets.get_or_init(|| self.build());
        let found = assets.iter().find(|(known, _)| known == path);
        found.map(|(_, asset)| asset)
    }

    fn build(&self) -> Vec<(String, Asset)> {
        // A URL has no other character that is markup.
        let mut page = PAGE.replace(ORIGIN, &self.root.replace('&', "&amp;"));
        let mut assets = with_hashed_names(&mut page, &FILES);
        let markdown = MARKDOWN.replace(ORIGIN, &self.root);
        let texts = [
            ("/docs", "text/html; charset=utf-8", page),
            (
                "/docs/api.md",
                "text/markdown; charset=utf-8",
                markdown.clone(),
            ),
            ("/llms.txt", "text/plain; charset=utf-8", markdown),
        ];
        assets.extend(texts.map(|(path, kind, text)| (path.to_owned(), Asset::new(kind, text))));
        assets
    }
}

/// The `Content-Security-Policy` of the page. It may send requests to its own server and to this origin, that of the public URL.
pub(crate) fn content_security_policy(public: Option<&BaseUrl>) -> String {
    let connect = match public {
        Some(url) => format!("'self' {}", url.origin()),
        None => "'self'".to_owned(),
    };
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src {connect}; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::api::operation::{Operation, Stability};

    const GUIDE: &str = include_str!("../../docs/api.md");

    fn docs(server: &str) -> Docs {
        Docs::new(&server.parse().unwrap())
    }

    /// Every value of an attribute in the page.
    fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
        let start = format!(" {attribute}=\"");
        let rests = page.split(start.as_str()).skip(1);
        rests.filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn the_docs_are_rendered_from_their_sources() {
        let openapi = serde_saphyr::from_str(include_str!("openapi.yaml")).unwrap();
        let reference = reference::render(&openapi, GUIDE);
        assert_eq!(reference::ORIGIN, ORIGIN);
        for (name, expected, found) in [
            ("page.html", reference.html, PAGE),
            ("page.md", reference.markdown, MARKDOWN),
        ] {
            if std::env::var_os("ANIMAL_STORE_TEST_WRITE").is_some() {
                let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api/docs");
                std::fs::write(format!("{folder}/{name}"), &expected).unwrap();
            } else {
                assert!(
                    expected == found,
                    "{name} is out of date: ANIMAL_STORE_TEST_WRITE=1 cargo test --workspace --lib docs"
                );
            }
        }
    }

    #[test]
    fn the_markdown_has_types_places_required_fields_and_error_codes() {
        for part in [
            "\n- `limit` (integer; 1 to 100; default `20`; query): Maximum",
            "\n- `petId` (int64; path; required): ",
            "\n- `Idempotency-Key` (string; 1 to 255 characters; header): ",
            "\n  - Same value and a different animal: 422.\n",
            "\n- `name` (string; 1 to 255 characters; required): ",
            "\n- `status` (`available` | `pending` | `sold`; default `available`): ",
            "\n- `shipDate` (date-time): ",
            "\n- `Retry-After` (integer; at least 1; such as `17`): ",
            "\n- 200 (array of `Pet`): ",
            "\n- 201 (`Pet`): ",
            "\n- 429 (`rate_limited`, `key_banned`): ",
        ] {
            assert!(MARKDOWN.contains(part), "{part}");
        }
    }

    #[test]
    fn every_reference_leads_to_a_file_or_an_anchor_and_none_elsewhere() {
        let docs = docs("http://127.0.0.1:8080/v1");
        let assets = docs.build();
        let page = &assets.iter().find(|(path, _)| path == "/docs").unwrap().1;
        let page = format!("{page:?}");
        // The bytes are printed escaped.
        let page = page.replace("\\\"", "\"");
        let anchors: BTreeSet<_> = values(&page, "id").into_iter().collect();
        assert_eq!(
            anchors.len(),
            values(&page, "id").len(),
            "an anchor occurs twice"
        );
        let references = [values(&page, "href"), values(&page, "src")].concat();
        assert!(references.len() > 100, "{references:?}");
        for reference in references {
            let leads = match reference.strip_prefix('#') {
                Some(anchor) => anchors.contains(anchor),
                None if reference.starts_with("openapi.") => true,
                None => docs.asset(&format!("/{reference}")).is_some(),
            };
            assert!(leads, "{reference}");
        }
        for (attribute, kind) in [("for", "labels"), ("aria-controls", "controls")] {
            for id in values(&page, attribute) {
                assert!(anchors.contains(id), "{kind} {id}");
            }
        }
    }

    #[test]
    fn the_page_has_no_script_or_style_inside() {
        assert!(
            !PAGE.contains("<style") && !PAGE.contains(" style=") && !PAGE.contains(" onclick")
        );
        for script in PAGE.split("<script").skip(1) {
            let (_, inside) = script.split_once('>').unwrap();
            assert!(inside.starts_with("</script>"), "{inside}");
        }
    }

    #[test]
    fn every_operation_parameter_and_error_code_has_an_anchor() {
        let anchors = values(PAGE, "id");
        let source = include_str!("error.rs");
        let (_, kinds) = source.split_once("fn kind(").unwrap();
        let (kinds, _) = kinds.split_once("\n    }\n").unwrap();
        let codes = kinds.split('"').skip(1).step_by(2);
        let of_admin = [
            "missing_admin_token",
            "invalid_admin_token",
            "forbidden",
            "conflict",
        ];
        let codes: BTreeSet<_> = codes.filter(|code| !of_admin.contains(code)).collect();
        let described: BTreeSet<_> = anchors
            .iter()
            .filter_map(|id| id.strip_prefix("errors-"))
            .collect();
        assert!(codes.len() > 15, "{codes:?}");
        assert_eq!(described, codes);
        for operation in Operation::ALL {
            assert!(anchors.contains(&operation.name()));
            assert!(MARKDOWN.contains(&format!("({})", operation.name())));
        }
        let document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let expected = described_anchors(&document);
        assert!(expected.len() > 60, "{expected:?}");
        for id in expected {
            assert!(anchors.contains(&id.as_str()), "{id}");
        }
    }

    /// The anchors of all operations, parameters, responses, fields and headers of the document.
    fn described_anchors(document: &Value) -> Vec<String> {
        let resolve = |value: &Value| match value["$ref"].as_str() {
            Some(reference) => document.pointer(&reference[1..]).unwrap().clone(),
            None => value.clone(),
        };
        let names = |value: &Value| -> Vec<String> {
            let members = value.as_object();
            members.map_or(Vec::new(), |members| members.keys().cloned().collect())
        };
        let (mut anchors, mut headers) = (Vec::new(), BTreeSet::new());
        let paths = document["paths"].as_object().unwrap().values();
        for operation in paths.flat_map(|path| path.as_object().unwrap().values()) {
            let Some(id) = operation["operationId"].as_str() else {
                continue;
            };
            anchors.push(id.to_owned());
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = resolve(parameter)["name"].as_str().unwrap().to_owned();
                anchors.push(format!("{id}-{name}"));
            }
            let body = resolve(&operation["requestBody"]["content"]["application/json"]["schema"]);
            let fields = names(&body["properties"]);
            anchors.extend(fields.iter().map(|name| format!("{id}-body-{name}")));
            for (status, response) in operation["responses"].as_object().unwrap() {
                anchors.push(format!("{id}-{status}"));
                headers.extend(names(&resolve(response)["headers"]));
            }
        }
        let header = |name: &String| format!("header-{}", name.to_lowercase());
        anchors.extend(headers.iter().map(header));
        for object in ["Pet", "Order", "Error"] {
            let fields = names(&document["components"]["schemas"][object]["properties"]);
            anchors.extend(fields.iter().map(|name| format!("object-{object}-{name}")));
        }
        anchors
    }

    #[test]
    fn every_heading_has_an_anchor_and_those_of_the_guide_have_the_one_of_their_text() {
        let ids = PAGE.match_indices("<h").filter_map(|(at, _)| {
            let (level, rest) = PAGE[at + 2..].split_at(1);
            let is_heading = level.parse::<u8>().is_ok();
            is_heading.then(|| {
                rest.strip_prefix(" id=\"")
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap()
            })
        });
        let ids: Vec<_> = ids.collect();
        let (mut count, mut section) = (0, String::new());
        let is_text = |(number, _): &(usize, &str)| number % 2 == 0;
        let texts = GUIDE.split("```").enumerate().filter(is_text);
        for line in texts.flat_map(|(_, text)| text.lines()) {
            let Some((marks, title)) = line.split_once("# ").filter(|_| line.starts_with('#'))
            else {
                continue;
            };
            let slug = title.to_lowercase().replace(' ', "-").replace('.', "");
            let id = match marks.len() {
                0 => "introduction".to_owned(),
                1 => slug,
                _ => format!("{section}-{slug}"),
            };
            assert!(ids.contains(&id.as_str()), "{line}: {id}");
            if marks.len() < 2 {
                section = id;
            }
            count += 1;
        }
        assert!(count > 15 && ids.len() > 40, "{count}: {ids:?}");
    }

    #[test]
    fn the_guide_has_the_dates_of_deprecated_operations_and_names_beta_ones() {
        for operation in Operation::ALL {
            let name = operation.name();
            let section = |title: &str| {
                let (_, section) = PAGE.split_once(&format!("<h2 id=\"{title}\">")).unwrap();
                section.split_once("</section>").unwrap().0
            };
            let link = format!("href=\"#{name}\"");
            let is_in = |title: &str| section(title).contains(&link);
            match operation.stability() {
                Stability::Stable => {}
                Stability::Beta => assert!(is_in("beta"), "{name}"),
                Stability::Deprecated(deprecation) => {
                    assert!(is_in("deprecations"), "{name}");
                    for time in [deprecation.since, deprecation.sunset] {
                        let day: jiff::civil::Date = time.day().to_string().parse().unwrap();
                        let written = day.strftime("%-d %B %Y").to_string();
                        assert!(section("deprecations").contains(&written), "{written}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_url_of_the_server_replaces_the_address_in_examples() {
        let docs = docs("https://animals.example/a&b/v1");
        for (path, expected) in [
            ("/docs", "https://animals.example/a&amp;b</b>/v1/pets"),
            ("/llms.txt", "https://animals.example/a&b/v1/pets"),
        ] {
            let text = format!("{:?}", docs.asset(path).unwrap());
            assert!(text.contains(expected) && !text.contains(ORIGIN), "{path}");
        }
    }

    #[test]
    fn all_files_together_have_at_most_200_kb_compressed() {
        let docs = docs("http://127.0.0.1:8080/v1");
        let sizes = docs
            .build()
            .into_iter()
            .map(|(path, asset)| (path, asset.compressed().len()));
        let sizes: Vec<_> = sizes.collect();
        let total: usize = sizes.iter().map(|(_, size)| size).sum();
        assert!(total <= 200_000, "{total}: {sizes:?}");
    }

    #[test]
    fn other_paths_have_no_file() {
        let docs = docs("http://127.0.0.1:8080/v1");
        for path in [
            "",
            "/",
            "/doc",
            "/docs/",
            "/docsx",
            "/docs/page.css",
            "/docs/page.html",
            "/Docs",
            "docs",
        ] {
            assert!(docs.asset(path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_policy_allows_only_what_is_named() {
        assert_eq!(
            content_security_policy(None),
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        );
        let public = "https://api.example.com:8443/animals/v1".parse().unwrap();
        let policy = content_security_policy(Some(&public));
        assert!(policy.contains("connect-src 'self' https://api.example.com:8443; "));
        assert!(!policy.contains("unsafe"));
    }
}
