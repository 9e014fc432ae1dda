//! Cross-origin requests from browsers.

use animal_store::api::cors::Cors;
use harness::{App, Client, Response, enterprise};

const SHOP: &str = "https://shop.example";

fn app(origins: &[&str]) -> (App, Client, Client) {
    let origins = origins.iter().filter_map(|origin| origin.parse().ok());
    let cors = Cors::new(origins.collect());
    App::start_with(|config| config.cors = cors)
}

fn preflight(client: &Client, path: &str, origin: &str) -> Response {
    client
        .request("OPTIONS", path)
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization")
        .send()
}

/// The headers of a response that are about origins.
fn cors(response: &Response) -> Vec<&str> {
    let names = response.headers.iter().map(|(name, _)| name.as_str());
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with("access-control-"))
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn a_preflight_needs_no_key_and_counts_nothing() {
    let (app, anonymous, _) = app(&[SHOP, "http://localhost:3000"]);
    let key = app.key(enterprise(2, 2));
    for (client, path, methods) in [
        (&anonymous, "/v1/pets", "GET, HEAD, POST"),
        (&key, "/v1/pets", "GET, HEAD, POST"),
        (&anonymous, "/v1/pets/1", "GET, HEAD"),
        (&anonymous, "/v1/store/orders", "GET, HEAD"),
        (&anonymous, "/v1/unknown", "GET, HEAD, POST"),
        (&anonymous, "/openapi.json", "GET, HEAD"),
    ] {
        for origin in [SHOP, "http://localhost:3000"] {
            let response = preflight(client, path, origin);
            assert_eq!(response.status, 204, "{response}");
            assert!(response.body.is_empty() && response.header("content-length").is_none());
            for (name, value) in [
                ("access-control-allow-origin", origin),
                ("access-control-allow-methods", methods),
                (
                    "access-control-allow-headers",
                    "Authorization, Content-Type, Idempotency-Key, X-Request-Id",
                ),
                ("access-control-max-age", "86400"),
                ("vary", "Origin"),
            ] {
                assert_eq!(response.header(name), Some(value), "{response}");
            }
            assert!(response.header("x-request-id").is_some(), "{response}");
            for name in ["x-ratelimit-limit", "retry-after", "www-authenticate"] {
                assert_eq!(response.header(name), None, "{response}");
            }
        }
    }
    assert_eq!(
        key.get("/v1/pets").header("x-ratelimit-remaining"),
        Some("1")
    );
}

#[test]
fn every_response_can_be_read_by_a_page_of_a_listed_origin_and_by_no_other() {
    let (app, anonymous, key) = app(&[SHOP]);
    let exhausted = app.key(enterprise(1, 1));
    assert_eq!(exhausted.get("/v1/pets").status, 200);
    for (client, method, path, status) in [
        (&key, "GET", "/v1/pets", 200),
        (&key, "POST", "/v1/pets", 415),
        (&key, "GET", "/v1/pets/7", 404),
        (&key, "DELETE", "/v1/pets", 405),
        (&anonymous, "GET", "/v1/pets", 401),
        (&exhausted, "GET", "/v1/pets", 429),
        (&anonymous, "GET", "/openapi.json", 200),
        (&anonymous, "GET", "/unknown", 404),
        // Without Access-Control-Request-Method it is not a preflight.
        (&anonymous, "OPTIONS", "/v1/pets", 401),
    ] {
        let send = |origin: &str| {
            let response = client.request(method, path).header("Origin", origin).send();
            assert_eq!(response.status, status, "{response}");
            // A page may have another one.
            let vary = ("vary".to_owned(), "Origin".to_owned());
            assert!(response.headers.contains(&vary), "{response}");
            response
        };
        let response = send(SHOP);
        assert_eq!(
            response.header("access-control-allow-origin"),
            Some(SHOP),
            "{response}"
        );
        let exposed = response.header("access-control-expose-headers");
        assert_eq!(
            exposed,
            Some(
                "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, Link, \
                 Location, Deprecation, Sunset, X-Request-Id, Idempotent-Replayed"
            ),
            "{response}"
        );
        for other in ["https://other.example", "http://shop.example", "null", "*"] {
            let response = send(other);
            assert_eq!(cors(&response), Vec::<&str>::new(), "{response}");
        }
    }
    let response = preflight(&anonymous, "/v1/pets", "https://other.example");
    assert_eq!((response.status, cors(&response)), (204, Vec::new()));
}

#[test]
fn a_page_of_a_listed_origin_can_read_a_503() {
    let (app, _, key) = app(&[SHOP]);
    let other = app.sql_client();
    other.lock_all();
    let create = key.request("POST", "/v1/pets").header("Origin", SHOP);
    let rejected = create.json(&crate::rex()).send();
    rejected.is_error(503, "unavailable");
    let allowed = rejected.header("access-control-allow-origin");
    assert_eq!(allowed, Some(SHOP), "{rejected}");
    other.unlock();
}

#[test]
fn any_origin_can_be_allowed_and_none_is_by_default() {
    let (_any, anonymous, _) = app(&["*"]);
    let response = preflight(&anonymous, "/v1/pets", SHOP);
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    let (_none, anonymous, _) = App::start();
    preflight(&anonymous, "/v1/pets", SHOP).is_error(401, "missing_api_key");
    let response = anonymous
        .request("GET", "/v1/pets")
        .header("Origin", SHOP)
        .send();
    assert_eq!(
        (cors(&response), response.header("vary")),
        (Vec::new(), None)
    );
}

#[test]
fn a_response_to_a_request_that_was_not_read_can_be_read_only_if_every_origin_is_allowed() {
    for (origin, allowed) in [("*", Some("*")), (SHOP, None)] {
        let cors = Cors::new(origin.parse().into_iter().collect());
        let (_app, anonymous, _) = App::start_with(|config| {
            config.cors = cors;
            config.max_connections_per_address = 1;
        });
        let mut first = anonymous.connect();
        let live = anonymous.request("GET", "/livez").send_on(&mut first);
        assert_eq!(live.status, 200, "{live}");
        // On a connection that speaks HTTP/1.1: it is the protocol of a rejection before the first request.
        let rejected = anonymous
            .request("GET", "/v1/pets")
            .header("Origin", SHOP)
            .send_on(&mut anonymous.connect());
        rejected.is_error(503, "unavailable");
        let header = rejected.header("access-control-allow-origin");
        assert_eq!(header, allowed, "{rejected}");
        assert_eq!(rejected.header("vary"), Some("Origin"), "{rejected}");
    }
}
