//! Creating an animal: what is returned, and what is stored.

use harness::{App, eventually, propagation_time};
use serde_json::{Value, json};

use crate::rex;

#[test]
fn a_creation_is_201_and_the_body_is_the_animal_with_its_id() {
    let (_app, _, key) = App::start();
    let made = key.create(&rex());
    assert_eq!(made.status, 201, "{made}");
    assert_eq!(made.header("content-type"), Some("application/json"));
    assert_eq!(
        made.json(),
        json!({"id": 1, "name": "Rex", "categoryId": 7, "status": "pending"})
    );
    assert_eq!(made.header("idempotent-replayed"), None);
}

#[test]
fn the_location_of_a_201_leads_to_the_animal() {
    let (app, _, key) = App::start();
    key.create_many(1);
    let made = key.create(&rex());
    let location = made.header("location").unwrap();
    assert_eq!(location, format!("{}/v1/pets/2", app.origin()));
    assert_eq!(key.follow(location).body, made.body);
}

#[test]
fn the_location_is_below_the_public_url() {
    let (_app, _, key) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/v1".parse().unwrap());
    });
    let made = key.create(&rex());
    let location = made.header("location");
    assert_eq!(location, Some("https://animals.example/v1/pets/1"));
}

#[test]
fn a_name_that_older_rules_accepted_stays_readable_and_listable() {
    let (app, _, key) = App::start();
    key.create(&rex());
    let blank = "\u{2800}\u{200b}";
    app.sql_client()
        .change(&format!("UPDATE pets SET name = '{blank}'"))
        .unwrap();
    eventually(propagation_time(), "the change to be seen", || {
        key.get("/v1/pets/1").json()["name"] == blank
    });
    assert_eq!(key.get("/v1/pets").json()[0]["name"], blank);
}

#[test]
fn every_creation_gets_a_new_id_and_ids_ascend() {
    let (_app, _, key) = App::start();
    let id = || key.create(&rex()).json()["id"].as_i64();
    let ids = [id(), id(), id()];
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
}

#[test]
fn a_status_that_is_omitted_is_stored_and_returned_as_available() {
    let (_app, _, key) = App::start();
    let made = key.create(&json!({"name": "Rex", "categoryId": 1}));
    assert_eq!(made.json()["status"], "available");
    assert_eq!(key.get("/v1/pets/1").json()["status"], "available");
    assert_eq!(key.get("/v1/pets?status=available").ids(), [1]);
}

#[test]
fn a_status_that_is_sent_is_stored_and_returned() {
    let (_app, _, key) = App::start();
    for (number, status) in ["available", "pending", "sold"].into_iter().enumerate() {
        let made = key.create(&json!({"name": "a", "categoryId": 1, "status": status}));
        assert_eq!(made.json()["status"], status);
        let id = number as i64 + 1;
        assert_eq!(key.get(&format!("/v1/pets?status={status}")).ids(), [id]);
    }
}

#[test]
fn a_name_is_kept_exactly_as_sent() {
    let (_app, _, key) = App::start();
    for (number, name) in [
        " padded\u{a0} ",
        "double  space",
        "\"quoted\" \\ / 'single'",
        "Zoë",
        "Zoe\u{308}",
        "犬 🐕‍🦺",
        "ﬁ\u{200d}\u{200f}\u{feff}",
        "\u{10ffff}\u{fffd}",
        "<b>&amp;%20",
        "null",
        "1",
        "'; DROP TABLE pets; --",
    ]
    .into_iter()
    .enumerate()
    {
        let made = key.create(&json!({"name": name, "categoryId": 1}));
        assert_eq!(
            (made.status, made.json()["name"].as_str()),
            (201, Some(name))
        );
        let got = key.get(&format!("/v1/pets/{}", number + 1));
        assert_eq!(got.body, made.body);
        assert_eq!(key.get("/v1/pets").json()[number], made.json());
    }
}

#[test]
fn a_name_written_with_escapes_is_unescaped() {
    let (_app, _, key) = App::start();
    let request = key.request("POST", "/v1/pets");
    let request = request.header("Content-Type", "application/json");
    let made = request.body(r#"{"n\u0061me":"\u005a\u006f\u00EB \ud83d\udc15","categoryId":1}"#);
    assert_eq!(made.send().json()["name"], "Zoë 🐕");
}

#[test]
fn a_name_has_1_to_255_unicode_scalar_values() {
    let (_app, _, key) = App::start();
    for letter in ["x", "é", "犬", "🐕"] {
        for (count, status) in [(1, 201), (255, 201), (256, 400)] {
            let made = key.create(&json!({"name": letter.repeat(count), "categoryId": 1}));
            assert_eq!(made.status, status, "{count} times {letter}");
        }
    }
}

#[test]
fn a_category_is_any_int64_with_no_rounding() {
    let (_app, _, key) = App::start();
    for category in [i64::MIN, -1, 0, 9_007_199_254_740_993, i64::MAX] {
        let made = key.create(&json!({"name": "a", "categoryId": category}));
        assert_eq!(made.json()["categoryId"], category, "{made}");
        let location = made.header("location").unwrap();
        assert_eq!(key.follow(location).json()["categoryId"], category);
    }
}

#[test]
fn an_integer_is_accepted_however_it_is_written() {
    let (_app, _, key) = App::start();
    for number in ["2", "2.0", "2.000", "20e-1", "0.2E1", "2e+0"] {
        let body = format!(r#"{{"name":"a","categoryId":{number}}}"#);
        let request = key.request("POST", "/v1/pets").body(body);
        let made = request.header("Content-Type", "application/json").send();
        assert_eq!(
            (made.status, &made.json()["categoryId"]),
            (201, &json!(2)),
            "{number}"
        );
    }
}

#[test]
fn unknown_fields_are_ignored_and_id_is_one_of_them() {
    let (_app, _, key) = App::start();
    let plain = json!({"name": "Rex", "categoryId": 1, "status": "sold"});
    let mut body = plain.clone();
    body["id"] = json!(99);
    body["Name"] = json!(1);
    body["tags"] = json!([{"name": null}, [[]]]);
    let mut expected: Value = plain;
    expected["id"] = json!(1);
    assert_eq!(key.create(&body).json(), expected);
    assert_eq!(key.get("/v1/pets/99").status, 404);
}

#[test]
fn the_order_of_fields_and_space_around_them_do_not_matter() {
    let (_app, _, key) = App::start();
    let body = "\r\n\t{ \"status\" : \"sold\",\n\"categoryId\" :1 , \"name\":\"Rex\" }\n ";
    let request = key.request("POST", "/v1/pets").body(body);
    let made = request.header("Content-Type", "application/json").send();
    assert_eq!(made.status, 201, "{made}");
    assert_eq!(made.json()["name"], "Rex");
}

#[test]
fn a_created_animal_can_be_listed_and_read_immediately() {
    let (_app, _, key) = App::start();
    for id in 1..=3 {
        let path = format!("/v1/pets/{id}");
        assert_eq!(key.get(&path).status, 404);
        let made = key.create(&rex());
        assert_eq!(key.get(&path).body, made.body);
        assert_eq!(key.get("/v1/pets").ids().last(), Some(&id));
        assert_eq!(key.get("/v1/pets?status=pending").ids().last(), Some(&id));
    }
}

#[test]
fn what_was_created_is_there_after_a_restart_and_its_id_is_not_used_again() {
    let (mut app, _, key) = App::start();
    let made = key.create(&rex());
    app.restart();
    let key = app.anonymous().with_key(key.key.as_deref());
    assert_eq!(key.get("/v1/pets/1").body, made.body);
    assert_eq!(key.create(&rex()).json()["id"], 2);
}
