//! Pages: their size, their order, and the way from one to the next.

use harness::App;
use serde_json::json;

#[test]
fn a_list_has_20_animals_by_default_oldest_first() {
    let (_app, _, key) = App::start();
    key.create_many(21);
    let list = key.get("/v1/pets");
    assert_eq!(list.ids(), (1..=20).collect::<Vec<_>>());
    assert_eq!(list.header("content-type"), Some("application/json"));
}

#[test]
fn following_next_to_its_end_yields_every_animal_exactly_once_whatever_is_added_meanwhile() {
    let (_app, _, key) = App::start();
    key.create_many(10);
    let mut seen = Vec::new();
    let mut page = key.get("/v1/pets?limit=3");
    loop {
        seen.extend(page.ids());
        let Some(next) = page.next() else { break };
        if seen.len() < 12 {
            key.create(&json!({"name": "late", "categoryId": 1}));
        }
        page = key.follow(&next);
    }
    assert!(seen.len() >= 10);
    assert_eq!(seen, (1..=seen.len() as i64).collect::<Vec<_>>());
}
