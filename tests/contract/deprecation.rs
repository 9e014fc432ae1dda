//! The removal of `GET /pets/{petId}`: announced in each of its responses, and effective to the millisecond.

use animal_store::clock::Timestamp;
use harness::{App, Response, START, enterprise};

use crate::rex;

/// 5 December 2030, 00:00:00 UTC.
const END: i64 = 1_922_659_200_000;

/// Panics unless the response announces that the operation is deprecated, since when, until when, and its replacement.
#[track_caller]
fn is_announced(app: &App, response: &Response) {
    let root = app.origin();
    assert_eq!(
        response.header("deprecation"),
        Some("@1794700800"),
        "{response}"
    );
    assert_eq!(
        response.header("sunset"),
        Some("Thu, 05 Dec 2030 00:00:00 GMT")
    );
    let links: Vec<_> = response
        .header("link")
        .unwrap_or_default()
        .split(", ")
        .collect();
    let instead = format!("<{root}/v1/pets?status=available>; rel=\"successor-version\"");
    let docs = format!("<{root}/docs#getPet>; rel=\"deprecation\"");
    assert!(
        links.iter().any(|link| link.starts_with(&instead)),
        "{response}"
    );
    assert!(
        links.iter().any(|link| link.starts_with(&docs)),
        "{response}"
    );
}

#[test]
fn every_response_of_get_pet_announces_its_removal() {
    let (app, anonymous, key) = App::start();
    let once = app.key(enterprise(1, 10));
    key.create(&rex());
    let long = format!("/v1/pets/1?{}", "x".repeat(8192));
    assert_eq!(once.get("/v1/pets/1").status, 200);
    for (response, status) in [
        (key.get("/v1/pets/1"), 200),
        (key.request("HEAD", "/v1/pets/1").send(), 200),
        (anonymous.get("/v1/pets/1"), 401),
        (anonymous.with_key(Some("wrong")).get("/v1/pets/1"), 401),
        (key.get("/v1/pets/2"), 404),
        (key.get("/v1/pets/one"), 404),
        (key.get(&long), 414),
        (key.request("GET", "/v1/pets/1").host("a b").send(), 400),
        (once.get("/v1/pets/1"), 429),
    ] {
        assert_eq!(response.status, status, "{response}");
        is_announced(&app, &response);
    }
}

#[test]
fn the_links_of_the_announcement_are_below_the_public_url() {
    let (_app, _, key) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/v1".parse().unwrap());
    });
    let response = key.get("/v1/pets/1");
    let link = response.header("link").unwrap();
    assert!(
        link.contains("<https://animals.example/v1/pets?status=available>"),
        "{link}"
    );
    assert!(
        link.contains("<https://animals.example/docs#getPet>"),
        "{link}"
    );
}

#[test]
fn no_other_operation_is_announced_as_deprecated() {
    let (_app, _, key) = App::start();
    for response in [
        key.create(&rex()),
        key.get("/v1/pets"),
        key.get("/v1/nothing"),
        key.get("/v1/pets/1/x"),
        key.get("/v1/pets/"),
        key.get("/livez"),
    ] {
        assert_eq!(
            (response.header("deprecation"), response.header("sunset")),
            (None, None)
        );
    }
}

#[test]
fn the_replacement_is_the_list_with_the_status_filter_and_it_has_the_animal() {
    let (_app, _, key) = App::start();
    key.create_many(1);
    let response = key.get("/v1/pets/1");
    let link = response.header("link").unwrap();
    let (url, _) = link[1..]
        .split_once(">; rel=\"successor-version\"")
        .unwrap();
    assert_eq!(key.follow(url).json()[0], response.json());
}

#[test]
fn the_dates_that_these_tests_expect_are_those_of_the_pages() {
    assert!(START >= Timestamp::from_secs(1_794_700_800));
    assert_eq!(
        Timestamp::from_secs(1_794_700_800).to_string(),
        "2026-11-15T00:00:00Z"
    );
    assert_eq!(
        Timestamp::from_millis(END).to_string(),
        "2030-12-05T00:00:00Z"
    );
}

#[test]
fn from_5_december_2030_on_it_returns_410_and_not_a_millisecond_before() {
    let (app, _, key) = App::start();
    let made = key.create(&rex());
    app.clock.set(Timestamp::from_millis(END - 1));
    let last = key.get("/v1/pets/1");
    assert_eq!((last.status, last.body), (200, made.body));
    for moment in [END, END + 1, END + 86_400_000] {
        app.clock.set(Timestamp::from_millis(moment));
        for path in ["/v1/pets/1", "/v1/pets/2", "/v1/pets/one"] {
            let response = key.get(path);
            is_announced(&app, response.is_error(410, "gone"));
        }
        let head = key.request("HEAD", "/v1/pets/1").send();
        assert_eq!(head.status, 410);
        is_announced(&app, &head);
    }
}

#[test]
fn the_410_is_sent_only_after_authentication() {
    let (app, anonymous, _) = App::start();
    app.clock.set(Timestamp::from_millis(END));
    let response = anonymous.get("/v1/pets/1");
    is_announced(&app, response.is_error(401, "missing_api_key"));
}

#[test]
fn the_other_operations_work_after_that_day() {
    let (app, _, key) = App::start();
    app.clock.set(Timestamp::from_millis(END));
    assert_eq!(key.create(&rex()).status, 201);
    assert_eq!(key.get("/v1/pets?status=pending").ids(), [1]);
}
