//! The list of animals: its content, order and length.

use harness::App;
use serde_json::json;

use crate::rex;

#[test]
fn a_list_without_animals_is_an_empty_array() {
    let (_app, _, key) = App::start();
    let list = key.get("/v1/pets");
    assert_eq!((list.status, list.body.as_slice()), (200, &b"[]"[..]));
    assert_eq!(list.header("link"), None);
}

#[test]
fn a_list_has_20_animals_by_default_oldest_first() {
    let (_app, _, key) = App::start();
    key.create_many(21);
    let list = key.get("/v1/pets");
    assert_eq!(list.ids(), (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_list_is_the_array_of_animals_sent_directly_as_json() {
    let (_app, _, key) = App::start();
    key.create(&rex());
    key.create(&json!({"name": "Mia", "categoryId": -1}));
    let list = key.get("/v1/pets");
    assert_eq!(list.status, 200);
    assert_eq!(list.header("content-type"), Some("application/json"));
    assert_eq!(
        list.json(),
        json!([
            {"id": 1, "name": "Rex", "categoryId": 7, "status": "pending"},
            {"id": 2, "name": "Mia", "categoryId": -1, "status": "available"},
        ])
    );
}

#[test]
fn an_animal_in_a_list_is_the_one_that_its_creation_returned() {
    let (_app, _, key) = App::start();
    let made = key.create(&rex()).json();
    assert_eq!(key.get("/v1/pets").json()[0], made);
}

#[test]
fn limit_is_the_maximum_number_of_animals_returned_from_1_to_100() {
    let (_app, _, key) = App::start();
    key.create_many(101);
    for limit in [1, 2, 19, 21, 99, 100] {
        let list = key.get(&format!("/v1/pets?limit={limit}"));
        assert_eq!(list.ids(), (1..=limit).collect::<Vec<_>>());
    }
}

#[test]
fn fewer_animals_than_the_limit_are_all_returned() {
    let (_app, _, key) = App::start();
    key.create_many(3);
    assert_eq!(key.get("/v1/pets?limit=100").ids(), [1, 2, 3]);
}

#[test]
fn a_list_ignores_a_request_body() {
    let (_app, _, key) = App::start();
    let mut connection = key.connect();
    for _ in 0..2 {
        let request = key.request("GET", "/v1/pets").body("not for you");
        assert_eq!(request.send_on(&mut connection).status, 200);
    }
}
