//! What lies outside `/v1`, with no key and no rate headers. The client looks for those in every response.

use harness::App;
use serde_json::{Value, json};

const PAGES: [&str; 6] = [
    "/",
    "/docs",
    "/openapi.json",
    "/openapi.yaml",
    "/livez",
    "/readyz",
];

#[test]
fn the_root_leads_to_the_docs() {
    let (_app, anyone, _) = App::start();
    let root = anyone.get("/");
    assert_eq!((root.status, root.header("location")), (302, Some("/docs")));
}

#[test]
fn the_docs_are_a_page_with_nothing_from_elsewhere() {
    let (_app, anyone, _) = App::start();
    let docs = anyone.get("/docs");
    assert_eq!(docs.status, 200);
    assert_eq!(
        docs.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let page = String::from_utf8(docs.body.clone()).unwrap();
    assert!(
        !page.contains("http://") && !page.contains("https://"),
        "{page}"
    );
    let policy = docs.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn every_file_that_the_docs_name_is_there_with_its_type() {
    let (_app, anyone, _) = App::start();
    let page = String::from_utf8(anyone.get("/docs").body).unwrap();
    let mut files = 0;
    for reference in page
        .split(['"', '\''])
        .filter(|text| text.contains("docs/"))
    {
        let file = anyone.get(&format!("/{}", reference.trim_start_matches(['.', '/'])));
        assert_eq!(file.status, 200, "{reference}");
        let right = match reference.rsplit('.').next() {
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            _ => "image/png",
        };
        assert_eq!(file.header("content-type"), Some(right), "{reference}");
        files += 1;
    }
    assert!(files >= 3, "{page}");
}

#[test]
fn the_openapi_document_is_served_as_json_and_as_yaml() {
    let (_app, anyone, _) = App::start();
    let document = anyone.get("/openapi.json");
    assert_eq!(document.header("content-type"), Some("application/json"));
    let version = document.json()["openapi"].as_str().unwrap().to_owned();
    assert!(version.starts_with("3.1."), "{version}");
    assert_eq!(document.json()["info"]["version"], "1.0.0");
    let yaml = anyone.get("/openapi.yaml");
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    let text = String::from_utf8(yaml.body).unwrap();
    assert!(text.contains(&format!("openapi: {version}")));
}

#[test]
fn public_and_staging_url_fill_the_servers_of_the_document() {
    let (_app, anyone, _) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/v1".parse().unwrap());
        config.staging_url = Some("https://staging.animals.example/v1".parse().unwrap());
    });
    let urls: Vec<Value> = anyone.get("/openapi.json").json()["servers"]
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
    let yaml = String::from_utf8(anyone.get("/openapi.yaml").body).unwrap();
    assert!(yaml.contains("https://staging.animals.example/v1"));
}

#[test]
fn livez_says_that_it_is_live_and_readyz_that_it_is_ready() {
    let (_app, anyone, _) = App::start();
    for (path, status) in [("/livez", "live"), ("/readyz", "ready")] {
        let response = anyone.get(path);
        assert_eq!(
            (response.status, response.json()),
            (200, json!({"status": status}))
        );
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn readyz_verbose_says_what_it_looked_at() {
    let (_app, anyone, _) = App::start();
    for query in ["verbose", "verbose=1", "x=1&verbose"] {
        let response = anyone.get(&format!("/readyz?{query}"));
        assert_eq!(response.json()["status"], "ready");
        assert_eq!(response.json()["checks"]["store"], "ready");
    }
}

#[test]
fn no_key_is_looked_at_outside_v1() {
    let (_app, anyone, key) = App::start();
    let wrong = anyone.with_key(Some("wrong"));
    for page in PAGES {
        let status = anyone.get(page).status;
        assert!(status < 400, "{page}");
        assert_eq!(
            (key.get(page).status, wrong.get(page).status),
            (status, status)
        );
    }
}

#[test]
fn an_unknown_path_outside_v1_is_404() {
    let (_app, anyone, key) = App::start();
    for path in [
        "/v1x",
        "/v2",
        "/v2/pets",
        "/pets",
        "/V1/pets",
        "//v1/pets",
        "/docsx",
        "/docs/nothing.js",
        "/docs/../livez",
        "/livez/",
        "/openapi",
        "/openapi.json/x",
        "/metrics",
        "/favicon.ico",
        "/admin",
    ] {
        anyone.get(path).is_error(404, "not_found");
    }
    let posted = key.request("POST", "/nothing").send();
    posted.is_error(404, "not_found");
}

#[test]
fn another_method_outside_v1_is_405() {
    let (_app, anyone, _) = App::start();
    for page in PAGES {
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let response = anyone.request(method, page).send();
            response.is_error(405, "method_not_allowed");
            assert_eq!(response.header("allow"), Some("GET, HEAD"));
        }
    }
}
