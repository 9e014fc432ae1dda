//! `GET /v1/store/orders`.

use animal_store::clock::Timestamp;
use animal_store::order::OrderId;
use animal_store::pet::PetId;
use harness::{App, START};
use serde_json::json;

const ORDERS: &str = "/v1/store/orders";

#[test]
fn without_orders_the_list_is_empty() {
    let (_app, anonymous, key) = App::start();
    assert_eq!(key.get(ORDERS).json(), json!([]));
    anonymous.get(ORDERS).is_error(401, "missing_api_key");
}

#[test]
fn an_order_has_id_pet_quantity_complete_and_a_ship_date_where_known() {
    let (app, _, key) = App::start();
    key.create_many(2);
    let date: Timestamp = "2026-12-24T18:00:00Z".parse().expect("a date");
    app.block_on(app.store().place_order(PetId(2), Some(date), START))
        .expect("store")
        .expect("placed");
    app.block_on(app.store().place_order(PetId(1), None, START))
        .expect("store")
        .expect("placed");
    app.block_on(app.store().complete_order(OrderId(1), START))
        .expect("store")
        .expect("complete");
    let expected = json!([
        {"id": 1, "petId": 2, "quantity": 1, "shipDate": "2026-12-24T18:00:00Z", "complete": true},
        {"id": 2, "petId": 1, "quantity": 1, "complete": false},
    ]);
    assert_eq!(key.get(ORDERS).json(), expected);
}

#[test]
fn cancelled_orders_are_not_listed_and_pages_skip_them() {
    let (app, _, key) = App::start();
    key.create_many(30);
    for pet in 1..=30 {
        app.block_on(app.store().place_order(PetId(pet), None, START))
            .expect("store")
            .expect("placed");
    }
    for order in (1..=30).filter(|order| order % 3 == 0) {
        app.block_on(app.store().cancel_order(OrderId(order), START))
            .expect("store")
            .expect("cancelled");
    }
    let mut seen = Vec::new();
    let mut page = key.get("/v1/store/orders?limit=4");
    loop {
        assert!(page.ids().len() <= 4);
        seen.extend(page.ids());
        let Some(next) = page.next() else { break };
        assert!(next.contains("/v1/store/orders?limit=4&cursor="), "{next}");
        page = key.follow(&next);
    }
    assert_eq!(
        seen,
        (1..=30)
            .filter(|order| order % 3 != 0)
            .collect::<Vec<i64>>()
    );
}

#[test]
fn limit_and_cursor_are_exactly_those_of_animals_and_status_is_ignored() {
    let (app, _, key) = App::start();
    key.create_many(21);
    for pet in 1..=21 {
        app.block_on(app.store().place_order(PetId(pet), None, START))
            .expect("store")
            .expect("placed");
    }
    assert_eq!(key.get(ORDERS).ids().len(), 20, "by default");
    assert_eq!(
        key.get("/v1/store/orders?status=nonsense&limit=100")
            .ids()
            .len(),
        21
    );
    for bad in [
        "limit=0",
        "limit=101",
        "limit=x",
        "limit=1&limit=1",
        "cursor=x",
        "cursor=",
    ] {
        key.get(&format!("{ORDERS}?{bad}"))
            .is_error(400, "invalid_parameter");
    }
    let next = key.get(ORDERS).next().expect("a second page");
    let (_, cursor) = next.split_once("cursor=").expect("a cursor");
    for query in ["", "&status=available"] {
        key.get(&format!("/v1/pets?cursor={cursor}{query}"))
            .is_error(400, "invalid_parameter");
    }
    let head = key.request("HEAD", ORDERS).send();
    assert_eq!((head.status, head.body.len()), (200, 0));
    for method in ["POST", "PUT", "DELETE"] {
        let rejected = key.request(method, ORDERS).send();
        assert_eq!(
            rejected.is_error(405, "method_not_allowed").header("allow"),
            Some("GET, HEAD")
        );
    }
}
