//! One animal by its ID.

use harness::App;

use crate::rex;

#[test]
fn an_animal_is_200_and_the_body_is_the_animal() {
    let (_app, _, key) = App::start();
    let made = key.create(&rex());
    let got = key.get("/v1/pets/1");
    assert_eq!((got.status, &got.body), (200, &made.body));
    assert_eq!(got.header("content-type"), Some("application/json"));
}

#[test]
fn an_animal_that_does_not_exist_is_404() {
    let (_app, _, key) = App::start();
    key.create(&rex());
    for id in [
        "0",
        "2",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
    ] {
        let got = key.get(&format!("/v1/pets/{id}"));
        got.is_error(404, "not_found");
    }
}

#[test]
fn an_id_that_is_not_an_int64_is_404() {
    let (_app, _, key) = App::start();
    key.create(&rex());
    for id in [
        "",
        "one",
        "1.0",
        "1e0",
        "0x1",
        "+1",
        "01",
        "-01",
        "1,2",
        "1;v=1",
        "%201",
        "1%20",
        "%2B1",
        "1%00",
        "1%2F",
        "%zz",
        "%",
        "1%",
        "%ff",
        "%D9%A1",
        "null",
        ".",
        "..",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551617",
        "99999999999999999999999999",
    ] {
        let got = key.get(&format!("/v1/pets/{id}"));
        got.is_error(404, "not_found");
    }
}

#[test]
fn a_percent_encoded_id_is_what_it_encodes() {
    let (_app, _, key) = App::start();
    key.create_many(12);
    assert_eq!(key.get("/v1/pets/%31").json()["id"], 1);
    assert_eq!(key.get("/v1/pets/1%32").json()["id"], 12);
}

#[test]
fn query_parameters_of_an_animal_are_unknown_and_so_ignored() {
    let (_app, _, key) = App::start();
    key.create(&rex());
    assert_eq!(key.get("/v1/pets/1?limit=0&status=lost&status").status, 200);
}
