//! The page of the dashboard as it is sent: its policy, its files, and its session.

use std::net::Ipv4Addr;

use animal_store::config::TlsFiles;
use harness::{Certificate, Client};
use serde_json::json;
use tempfile::TempDir;

use crate::{TOKEN, post, start, start_with};

/// The paths of the files that a page refers to, each once.
fn files(page: &str, folder: &str) -> Vec<String> {
    let quoted = page.split('"').skip(1).step_by(2);
    let mut files: Vec<String> = quoted
        .filter(|text| text.starts_with(folder))
        .map(|file| format!("/{file}"))
        .collect();
    files.sort();
    files.dedup();
    files
}

fn text_at(client: &Client, path: &str) -> String {
    String::from_utf8(client.get(path).body).expect("text")
}

#[test]
fn the_dashboard_may_load_nothing_from_elsewhere_and_has_no_code_inside() {
    let (_app, operator, _) = start();
    let anyone = operator.with_key(None);
    let page = text_at(&anyone, "/");
    let files = files(&page, "assets/");
    assert_eq!(files.len(), 3, "a style, a script and an icon: {files:?}");
    for path in files.iter().map(String::as_str).chain(["/"]) {
        let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
        let response = anyone.get(path);
        assert_eq!(
            response.header("content-security-policy"),
            Some(policy),
            "{path}"
        );
        let referrer = response.header("referrer-policy");
        assert_eq!(referrer, Some("no-referrer"), "{path}");
    }
    for inside in ["<style", " style=", " on"] {
        let found = page.find(inside).map(|at| &page[at..]);
        let found = found.filter(|rest| inside != " on" || is_handler(rest));
        assert_eq!(found, None);
    }
    for script in page.split("<script").skip(1) {
        let (_, inside) = script.split_once('>').expect("a tag");
        assert!(inside.starts_with("</script>"), "{inside}");
    }
}

/// Whether text begins with an attribute such as ` onclick="`.
fn is_handler(text: &str) -> bool {
    let name = text.trim_start().split('=').next().unwrap_or_default();
    name.chars().all(|letter| letter.is_ascii_lowercase())
}

#[test]
fn its_files_have_immutable_names_and_tags_and_are_small_together_with_those_of_the_docs() {
    let (app, operator, _) = start();
    let (admin, api) = (operator.with_key(None), app.anonymous());
    let mut size = 0;
    for (client, page, folder) in [(&admin, "/", "assets/"), (&api, "/docs", "docs/")] {
        let mut paths = files(&text_at(client, page), folder);
        paths.push(page.to_owned());
        for path in paths {
            let request = client.request("GET", &path);
            let request = request.header("Accept-Encoding", "gzip");
            let file = request.clone().send();
            assert_eq!(file.header("content-encoding"), Some("gzip"), "{path}");
            size += file.body.len();
            let tag = file.header("etag").expect("a tag");
            let again = request.header("If-None-Match", tag).send();
            assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
            let caching = file.header("cache-control").expect("caching");
            let stem = path.split('.').next().unwrap_or_default();
            let hash = stem.rsplit('-').next().unwrap_or_default();
            let is_named_by_hash = hash.len() == 16 && tag.contains(hash);
            assert_eq!(caching.ends_with("immutable"), is_named_by_hash, "{path}");
            assert!(is_named_by_hash || path == page || path == "/docs/api.md");
        }
    }
    assert!(size <= 200_000, "{size} bytes");
}

#[test]
fn a_restart_ends_the_session() {
    let (mut app, operator, _) = start();
    let anyone = operator.with_key(None);
    let log_in = |anyone: &Client| {
        let begun = post(anyone, "/api/session", &json!({"token": TOKEN}));
        let cookie = begun.header("set-cookie").expect("a cookie");
        let (cookie, _) = cookie.split_once(';').expect("attributes");
        let (name, secret) = cookie.split_once('=').expect("a secret");
        (name.to_owned(), secret.to_owned())
    };
    let get = |anyone: &Client, name: &str, secret: &str| {
        let request = anyone.request("GET", "/api/overview");
        let cookie = format!("{name}={secret}");
        request.header("Cookie", &cookie).send()
    };
    let (name, secret) = log_in(&anyone);
    assert_eq!(get(&anyone, &name, &secret).status, 200);
    app.restart();
    let anyone = Client::new(app.admin_address(), None);
    let (other_name, _) = log_in(&anyone);
    for name in [name, other_name] {
        get(&anyone, &name, &secret).is_error(401, "missing_admin_token");
    }
}

#[test]
fn over_tls_the_cookie_is_secure_and_a_page_without_tls_changes_nothing() {
    let (certificate, folder) = (Certificate::new(), TempDir::new().expect("a folder"));
    let (cert, key) = certificate.write(folder.path());
    let (app, ..) = start_with(|config| {
        config.tls = Some(TlsFiles { cert, key });
        config.admin_listen.set_ip(Ipv4Addr::UNSPECIFIED.into());
    });
    let address = (Ipv4Addr::LOCALHOST, app.admin_address().port()).into();
    let over_tls = Client::new(address, None).over(&certificate.client());
    let (_app, operator, _) = start();
    for (client, is_secure) in [(over_tls, true), (operator.with_key(None), false)] {
        let begun = post(&client, "/api/session", &json!({"token": TOKEN}));
        let cookie = begun.header("set-cookie").expect("a cookie");
        assert_eq!(cookie.ends_with("; Secure"), is_secure, "{cookie}");
        // The page of another server, on the same port without TLS, is of another origin.
        let key = json!({"name": "a", "plan": "free"});
        for (scheme, status) in [("https", 201), ("http", if is_secure { 403 } else { 201 })] {
            let change = client.request("POST", "/api/keys").json(&key);
            let change = change.header("Cookie", cookie);
            let origin = format!("{scheme}://{}", client.address);
            let changed = change.header("Origin", &origin).send();
            assert_eq!(changed.status, status, "{origin}: {changed}");
        }
    }
}
