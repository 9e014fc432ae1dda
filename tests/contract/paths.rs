//! Paths and methods under `/v1` that do not exist.

use harness::App;

use crate::rex;

const UNKNOWN: [&str; 17] = [
    "/v1",
    "/v1/",
    "/v1/pet",
    "/v1/petsx",
    "/v1/Pets",
    "/v1/pets/",
    "/v1/pets/?limit=1",
    "/v1/pets%2F1",
    "/v1/pets%2f1",
    "/v1/pets/1/",
    "/v1/pets/1/x",
    "/v1/pets//",
    "/v1//pets",
    "/v1/store",
    "/v1/store/orders/1",
    "/v1/docs",
    "/v1?limit=0",
];

#[test]
fn an_unknown_path_under_v1_is_404() {
    let (_app, _, key) = App::start();
    key.create(&rex());
    for path in UNKNOWN {
        for method in ["GET", "POST", "DELETE"] {
            key.request(method, path).send().is_error(404, "not_found");
        }
    }
}

#[test]
fn percent_encoding_means_the_same_everywhere_in_a_path() {
    let (_app, anonymous, key) = App::start();
    key.create_many(7);
    assert_eq!(key.get("/v1/p%65ts?limit=1").ids(), [1]);
    assert_eq!(key.get("/%76%31/%70%65%74%73?limit=1").ids(), [1]);
    assert_eq!(
        key.request("POST", "/v1/pet%73").json(&rex()).send().status,
        201
    );
    assert_eq!(key.get("/v1/p%65ts/%37").json()["id"], 7);
    assert_eq!(key.get("/v1/store/order%73").status, 200);
    let deleted = key.request("DELETE", "/v1/p%65ts/%37").send();
    assert_eq!(
        deleted.is_error(405, "method_not_allowed").header("allow"),
        Some("GET, HEAD")
    );
    anonymous
        .get("/%76%31/pets")
        .is_error(401, "missing_api_key");
    for open in ["/live%7A", "/doc%73", "/openapi%2Ejson"] {
        assert_eq!(anonymous.get(open).status, 200, "{open}");
    }
    let docs = anonymous.get("/docs").body;
    let asset = String::from_utf8(docs).unwrap();
    let (_, rest) = asset.split_once("docs/").expect("an asset");
    let name = rest.split('"').next().unwrap();
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
    assert_eq!(
        anonymous.get(&format!("/d%6Fcs/{encoded}")).body,
        anonymous.get(&format!("/docs/{name}")).body
    );
    // What is encoded twice or malformed is not decoded.
    for path in [
        "/v1/p%2565ts",
        "/v1/pets/%2537",
        "/v1/pets%00",
        "/v1/p%65ts%2F7",
        "/v1/pets/%zz",
        "/v1/pets%",
        "/v1%2Fpets",
        "/v1/p%C3%A9ts",
        "/v1/%ff",
    ] {
        let response = key.get(path);
        assert_eq!(
            (response.status, &*response.code()),
            (404, "not_found"),
            "{path}"
        );
    }
}

#[test]
fn an_unknown_path_is_404_only_after_authentication() {
    let (_app, anonymous, _) = App::start();
    for path in UNKNOWN {
        anonymous.get(path).is_error(401, "missing_api_key");
    }
}

#[test]
fn another_method_is_405_and_allow_names_those_that_the_path_supports() {
    let (_app, _, key) = App::start();
    key.create(&rex());
    for (path, others, allow) in [
        (
            "/v1/pets",
            &["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get"][..],
            "GET, HEAD, POST",
        ),
        ("/v1/pets?limit=0", &["PUT"], "GET, HEAD, POST"),
        (
            "/v1/pets/1",
            &["POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
            "GET, HEAD",
        ),
        ("/v1/pets/2", &["DELETE"], "GET, HEAD"),
        ("/v1/pets/one", &["DELETE"], "GET, HEAD"),
    ] {
        for method in others {
            let response = key.request(method, path).json(&rex()).send();
            response.is_error(405, "method_not_allowed");
            assert_eq!(response.header("allow"), Some(allow), "{method} {path}");
        }
    }
    assert_eq!(key.get("/v1/pets").ids(), [1]);
}

#[test]
fn another_method_is_405_only_after_authentication() {
    let (_app, anonymous, _) = App::start();
    for path in ["/v1/pets", "/v1/pets/1"] {
        let response = anonymous.request("DELETE", path).send();
        response.is_error(401, "missing_api_key");
    }
}

#[test]
fn the_methods_that_allow_names_are_supported() {
    let (_app, _, key) = App::start();
    key.create(&rex());
    for path in ["/v1/pets", "/v1/pets/1"] {
        let rejected = key.request("PATCH", path).send();
        for method in rejected.header("allow").unwrap().split(", ") {
            let response = key.request(method, path).json(&rex()).send();
            assert!(response.status < 300, "{response}");
        }
    }
}

#[test]
fn a_target_in_absolute_form_is_routed_by_its_path() {
    let (app, _, key) = App::start();
    key.create(&rex());
    let target = format!("http://{}/v1/pets?limit=1", app.address());
    let mut connection = key.connect();
    let secret = key.key.as_deref().unwrap();
    let head =
        format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\n\r\n");
    connection.send(head.as_bytes());
    assert_eq!(connection.response().ids(), [1]);
}
