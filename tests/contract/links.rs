//! The base of links: the public URL if it is configured, otherwise the host that the request names.

use animal_store::access::TrustedProxies;
use harness::{App, Client};

use crate::rex;

/// Every link that the API writes, in responses to requests with these headers: `Location`, `next` and the two of the deprecated
/// operation.
fn links(key: &Client, host: &str, headers: &[(&str, &str)]) -> Vec<String> {
    let send = |method: &str, target: &str| {
        let mut request = key.request(method, target).host(host);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if method == "POST" {
            request = request.json(&rex());
        }
        request.send()
    };
    let targets = |response: &harness::Response, name: &str| -> Vec<String> {
        let value = response.header(name).unwrap_or_default();
        let urls = value.split('<').skip(1);
        urls.filter_map(|url| Some(url.split_once('>')?.0.to_owned()))
            .collect()
    };
    let made = send("POST", "/v1/pets");
    let mut all: Vec<String> = made
        .header("location")
        .map(str::to_owned)
        .into_iter()
        .collect();
    send("POST", "/v1/pets");
    all.extend(targets(&send("GET", "/v1/pets?limit=1"), "link"));
    all.extend(targets(&send("GET", "/v1/pets/1"), "link"));
    all.extend(targets(&send("GET", "/v1/pets/999"), "link"));
    assert_eq!(all.len(), 6, "{all:?}");
    all
}

#[track_caller]
fn all_below(links: &[String], root: &str) {
    for link in links {
        let rest = link.strip_prefix(root).unwrap_or("");
        assert!(
            rest.starts_with("/v1/pets") || rest == "/docs#getPet",
            "{link} is not below {root}"
        );
    }
}

#[test]
fn without_a_public_url_links_lead_to_the_host_of_the_request() {
    let (app, anonymous, key) = App::start();
    // Several hosts, and then the first one again: nothing is reused from an earlier request.
    for host in [
        "animals.example",
        "localhost:8080",
        "[2001:db8::1]:8080",
        "ANIMALS.example",
        "a-b_c.example:1",
        "animals.example",
        &app.address().to_string(),
    ] {
        all_below(&links(&key, host, &[]), &format!("http://{host}"));
    }
    let rejected = anonymous
        .request("GET", "/v1/pets/1")
        .host("animals.example")
        .send();
    let link = rejected.is_error(401, "missing_api_key").header("link");
    assert!(
        link.unwrap().starts_with("<http://animals.example/v1/"),
        "{rejected}"
    );
}

#[test]
fn a_public_url_wins_over_the_host_of_the_request() {
    let (_app, _, key) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/api/v1".parse().unwrap());
        config.trusted_proxies = TrustedProxies::new(vec!["127.0.0.1".parse().unwrap()]);
    });
    let links = links(&key, "other.example", &[("X-Forwarded-Proto", "http")]);
    all_below(&links, "https://animals.example/api");
}

#[test]
fn links_are_https_where_a_trusted_proxy_says_so_and_only_then() {
    let (_app, _, key) = App::start_with(|config| {
        config.trusted_proxies = TrustedProxies::new(vec!["127.0.0.1".parse().unwrap()]);
    });
    for (lines, scheme) in [
        (&["https"][..], "https"),
        (&["HTTPS"], "https"),
        (&[" https "], "https"),
        // The entry that the nearest proxy wrote counts, as with X-Forwarded-For; earlier entries can be forged.
        (&["http, https"], "https"),
        (&["http", "https"], "https"),
        (&["https, http"], "http"),
        (&["https", "http"], "http"),
        (&["http"], "http"),
        (&["ftp"], "http"),
        (&[""], "http"),
        (&[], "http"),
    ] {
        let headers: Vec<_> = lines
            .iter()
            .map(|line| ("X-Forwarded-Proto", *line))
            .collect();
        let links = links(&key, "a.example", &headers);
        all_below(&links, &format!("{scheme}://a.example"));
    }

    let (_app, _, key) = App::start();
    let links = links(&key, "a.example", &[("X-Forwarded-Proto", "https")]);
    all_below(&links, "http://a.example");
}

#[test]
fn a_target_in_absolute_form_names_the_host_itself() {
    let (_app, _, key) = App::start();
    key.create(&rex());
    let mut connection = key.connect();
    let secret = key.key.as_deref().unwrap();
    for host in ["b.example:81", "c.example"] {
        connection.send(
            format!(
                "GET http://{host}/v1/pets/1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\n\r\n"
            )
            .as_bytes(),
        );
        let response = connection.response();
        let start = format!("<http://{host}/v1/pets?");
        assert!(
            response.header("link").unwrap().starts_with(&start),
            "{response}"
        );
    }
}

#[test]
fn a_request_that_names_no_host_gets_links_to_the_address_of_the_server() {
    let (app, _, key) = App::start();
    key.create(&rex());
    let mut connection = key.connect();
    let secret = key.key.as_deref().unwrap();
    connection.send(
        format!("GET /v1/pets/1 HTTP/1.0\r\nAuthorization: Bearer {secret}\r\n\r\n").as_bytes(),
    );
    let response = connection.response();
    let start = format!("<{}/v1/pets?", app.origin());
    assert!(
        response.header("link").unwrap().starts_with(&start),
        "{response}"
    );
}
