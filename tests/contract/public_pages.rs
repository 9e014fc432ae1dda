//! The pages outside `/v1`, without a key and without rate limit headers. The client checks that in every response.

use harness::App;
use serde_json::{Value, json};

const PAGES: [&str; 8] = [
    "/",
    "/docs",
    "/docs/api.md",
    "/llms.txt",
    "/openapi.json",
    "/openapi.yaml",
    "/livez",
    "/readyz",
];

#[test]
fn the_root_leads_to_the_docs() {
    let (_app, anonymous, _) = App::start();
    let root = anonymous.get("/");
    assert_eq!((root.status, root.header("location")), (302, Some("/docs")));
    let (_app, anonymous, _) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/base/v1".parse().unwrap());
    });
    let location = "https://animals.example/base/docs";
    assert_eq!(anonymous.get("/").header("location"), Some(location));
}

/// Every path below `/docs/` that the page refers to.
fn files(page: &str) -> Vec<String> {
    let quoted = page.split('"').skip(1).step_by(2);
    let files = quoted.filter(|text| text.starts_with("docs/"));
    files.map(|file| format!("/{file}")).collect()
}

#[test]
fn the_docs_are_a_page_that_may_load_nothing_from_elsewhere() {
    let (_app, anonymous, _) = App::start();
    let docs = anonymous.get("/docs");
    assert_eq!(docs.status, 200);
    assert_eq!(
        docs.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(
        docs.header("content-security-policy"),
        Some(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        )
    );
    assert_eq!(docs.header("referrer-policy"), Some("no-referrer"));
    let (_app, anonymous, _) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/v1".parse().unwrap());
    });
    let docs = anonymous.get("/docs");
    let policy = docs.header("content-security-policy").unwrap();
    assert!(
        policy.contains("connect-src 'self' https://animals.example;"),
        "{policy}"
    );
}

#[test]
fn the_docs_name_the_public_url_or_else_the_address_that_the_server_listens_on() {
    let (app, local, _) = App::start();
    let (_public, public, _) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/v1".parse().unwrap());
    });
    let origin = app.origin();
    for (client, origin) in [(local, &*origin), (public, "https://animals.example")] {
        for path in ["/docs", "/docs/api.md", "/llms.txt"] {
            let page = String::from_utf8(client.get(path).body).unwrap();
            let page = page.replace("</b>", "");
            assert!(page.contains(&format!("{origin}/v1/pets")), "{path}");
            assert!(!page.contains("127.0.0.1:8080"), "{path}");
        }
    }
}

#[test]
fn every_file_that_the_docs_name_is_there_with_its_type_and_may_be_cached() {
    let (_app, anonymous, _) = App::start();
    let page = String::from_utf8(anonymous.get("/docs").body).unwrap();
    let files = files(&page);
    assert!(files.len() >= 4, "{files:?}");
    for path in files {
        let file = anonymous.get(&path);
        assert_eq!(file.status, 200, "{path}");
        let (kind, caching) = match path.rsplit('.').next() {
            Some("css") => ("text/css; charset=utf-8", "immutable"),
            Some("js") => ("text/javascript; charset=utf-8", "immutable"),
            Some("svg") => ("image/svg+xml", "immutable"),
            _ => ("text/markdown; charset=utf-8", "no-cache"),
        };
        assert_eq!(file.header("content-type"), Some(kind), "{path}");
        let cached = file.header("cache-control").unwrap();
        assert!(cached.ends_with(caching), "{path}: {cached}");
    }
}

#[test]
fn the_same_text_is_there_as_markdown() {
    let (_app, anonymous, _) = App::start();
    let [text, tools] = ["/docs/api.md", "/llms.txt"].map(|path| anonymous.get(path));
    assert_eq!(
        tools.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(text.body, tools.body);
    let text = String::from_utf8(text.body).unwrap();
    assert!(text.starts_with("# Animal Store API\n"), "{text}");
    for part in ["`GET /v1/pets`", "`rate_limited`", "Idempotency-Key"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_page_is_compressed_for_clients_that_accept_it_and_sent_once() {
    let (_app, anonymous, _) = App::start();
    for path in ["/docs", "/docs/api.md", "/openapi.json", "/openapi.yaml"] {
        let plain = anonymous.get(path);
        assert_eq!(plain.header("content-encoding"), None);
        let accepting = anonymous
            .request("GET", path)
            .header("Accept-Encoding", "gzip");
        let compressed = accepting.clone().send();
        assert_eq!(
            compressed.header("content-encoding"),
            Some("gzip"),
            "{path}"
        );
        assert!(compressed.body.starts_with(&[0x1f, 0x8b]));
        assert!(compressed.body.len() * 3 < plain.body.len(), "{path}");
        for (response, request) in [
            (plain, anonymous.request("GET", path)),
            (compressed, accepting),
        ] {
            assert_eq!(response.header("vary"), Some("accept-encoding"));
            let tag = response.header("etag").unwrap();
            let again = request.header("If-None-Match", tag).send();
            assert_eq!((again.status, again.header("etag")), (304, Some(tag)));
            assert!(again.body.is_empty() && again.header("content-length").is_none());
        }
    }
}

#[test]
fn the_openapi_document_is_served_as_json_and_as_yaml() {
    let (_app, anonymous, _) = App::start();
    let document = anonymous.get("/openapi.json");
    assert_eq!(document.header("content-type"), Some("application/json"));
    let version = document.json()["openapi"].as_str().unwrap().to_owned();
    assert!(version.starts_with("3.1."), "{version}");
    assert_eq!(document.json()["info"]["version"], "1.0.0");
    let yaml = anonymous.get("/openapi.yaml");
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    let text = String::from_utf8(yaml.body).unwrap();
    assert!(text.contains(&format!("openapi: {version}")));
}

#[test]
fn public_and_staging_url_fill_the_servers_of_the_document() {
    let (_app, anonymous, _) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/v1".parse().unwrap());
        config.staging_url = Some("https://staging.animals.example/v1".parse().unwrap());
    });
    let urls: Vec<Value> = anonymous.get("/openapi.json").json()["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["url"].clone())
        .collect();
    assert_eq!(
        urls,
        [
            "https://animals.example/v1",
            "https://staging.animals.example/v1"
        ]
    );
    let yaml = String::from_utf8(anonymous.get("/openapi.yaml").body).unwrap();
    assert!(yaml.contains("https://staging.animals.example/v1"));
}

#[test]
fn livez_reports_that_it_is_live_and_readyz_that_it_is_ready() {
    let (_app, anonymous, _) = App::start();
    for (path, status) in [("/livez", "live"), ("/readyz", "ready")] {
        let response = anonymous.get(path);
        assert_eq!(
            (response.status, response.json()),
            (200, json!({"status": status}))
        );
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn readyz_verbose_lists_its_checks() {
    let (_app, anonymous, _) = App::start();
    for query in ["verbose", "verbose=1", "x=1&verbose"] {
        let response = anonymous.get(&format!("/readyz?{query}"));
        assert_eq!(response.json()["status"], "ready");
        assert_eq!(response.json()["checks"]["store"], "ready");
    }
}

#[test]
fn keys_are_ignored_outside_v1() {
    let (_app, anonymous, key) = App::start();
    let wrong = anonymous.with_key(Some("wrong"));
    for page in PAGES {
        let status = anonymous.get(page).status;
        assert!(status < 400, "{page}");
        assert_eq!(
            (key.get(page).status, wrong.get(page).status),
            (status, status)
        );
    }
}

#[test]
fn an_unknown_path_outside_v1_is_404() {
    let (_app, anonymous, key) = App::start();
    for path in [
        "/v1x",
        "/v2",
        "/v2/pets",
        "/pets",
        "/V1/pets",
        "//v1/pets",
        "/docsx",
        "/docs/nothing.js",
        "/docs/page.css",
        "/llms-full.txt",
        "/docs/../livez",
        "/livez/",
        "/openapi",
        "/openapi.json/x",
        "/metrics",
        "/favicon.ico",
        "/admin",
    ] {
        anonymous.get(path).is_error(404, "not_found");
    }
    for path in ["/nothing", "/docs/nothing.js"] {
        let posted = key.request("POST", path).send();
        posted.is_error(404, "not_found");
    }
    let posted = key.request("POST", "/docs/api.md").send();
    posted.is_error(405, "method_not_allowed");
}

#[test]
fn another_method_outside_v1_is_405() {
    let (_app, anonymous, _) = App::start();
    for page in PAGES {
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let response = anonymous.request(method, page).send();
            response.is_error(405, "method_not_allowed");
            assert_eq!(response.header("allow"), Some("GET, HEAD"));
        }
    }
}
