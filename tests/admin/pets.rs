//! Animals and orders through the admin API.

use serde_json::json;

use crate::{post, start};

#[test]
fn an_animal_is_ordered_sold_and_set_available_again() {
    let (_app, operator, client) = start();
    client.create_many(3);
    let pets = operator.get("/api/pets?limit=2");
    assert_eq!(pets.json(), client.get("/v1/pets?limit=2").json());
    let next = pets.header("x-next-cursor").expect("a cursor");
    let rest = operator.get(&format!("/api/pets?limit=2&cursor={next}"));
    assert_eq!(rest.json()[0]["id"], 3, "{rest}");
    assert_eq!(rest.header("x-next-cursor"), None);

    let body = json!({"petId": 1, "shipDate": "2026-12-24T18:00:00Z"});
    let placed = post(&operator, "/api/orders", &body);
    assert_eq!(placed.status, 201, "{placed}");
    let expected = json!({
        "id": 1, "petId": 1, "quantity": 1, "shipDate": "2026-12-24T18:00:00Z", "complete": false, "state": "open"
    });
    assert_eq!(placed.json(), expected);
    post(&operator, "/api/orders", &body).is_error(409, "conflict");
    let open = post(&operator, "/api/pets/1/status", &json!({"status": "sold"}));
    open.is_error(409, "conflict");
    let advice = r#"animal 1 has the open order 1: complete or cancel it, or send {"force":true} to cancel it."#;
    assert_eq!(open.json()["message"], advice, "{open}");
    let completed = operator.request("POST", "/api/orders/1/complete").send();
    assert_eq!(completed.json()["state"], "complete", "{completed}");
    operator
        .request("POST", "/api/orders/1/cancel")
        .send()
        .is_error(409, "conflict");
    assert_eq!(operator.get("/api/pets/1").json()["status"], "sold");

    let set = post(
        &operator,
        "/api/pets/1/status",
        &json!({"status": "available"}),
    );
    assert_eq!(
        set.json(),
        json!({"id": 1, "status": "available", "before": "sold", "cancelledOrder": null})
    );
    post(&operator, "/api/orders", &json!({"petId": 2}));
    let forced = json!({"status": "sold", "force": true});
    let set = post(&operator, "/api/pets/2/status", &forced);
    assert_eq!(set.json()["cancelledOrder"], 2, "{set}");
    let orders = operator.get("/api/orders?limit=1");
    let next = orders.header("x-next-cursor").expect("a cursor");
    let rest = operator.get(&format!("/api/orders?limit=1&cursor={next}"));
    assert_eq!(rest.json()[0]["state"], "cancelled", "{rest}");
    assert_eq!(rest.header("x-next-cursor"), None);
    for (status, expected) in [("complete", 1), ("cancelled", 2)] {
        let listed = operator.get(&format!("/api/orders?state={status}"));
        assert_eq!(listed.json()[0]["id"], expected, "{listed}");
        assert_eq!(listed.json()[1], json!(null), "{listed}");
        assert_eq!(listed.header("x-next-cursor"), None, "{listed}");
    }
    assert_eq!(operator.get("/api/orders?state=open").json(), json!([]));
    for query in ["state=sold", "st%61te=sold", "state=open&st%61te=open"] {
        let rejected = operator.get(&format!("/api/orders?{query}"));
        rejected.is_error(400, "invalid_parameter");
    }
    for (query, problem) in [
        (
            "cursor=x".to_owned(),
            "must be the value from X-Next-Cursor",
        ),
        (
            format!("cursor={next}"),
            "another list or another status filter: use the value from X-Next-Cursor",
        ),
        (
            format!("cursor={next}&cursor={next}"),
            "must be given at most once",
        ),
    ] {
        let response = operator.get(&format!("/api/pets?{query}"));
        response.is_error(400, "invalid_parameter");
        assert!(response.message().contains(problem), "{response}");
    }

    operator.get("/api/pets/9").is_error(404, "not_found");
    post(&operator, "/api/orders", &json!({"petId": 9})).is_error(404, "not_found");
    post(&operator, "/api/pets/9/status", &forced).is_error(404, "not_found");
    let bad = post(&operator, "/api/pets/1/status", &json!({"status": "gone"}));
    bad.is_error(400, "invalid_body");
}

#[test]
fn a_change_is_visible_to_the_next_request_of_an_operator() {
    let (_app, operator, client) = start();
    client.create_many(3);
    for status in ["pending", "sold", "available", "pending", "sold"] {
        // Both are cached.
        client.get("/v1/pets?limit=2");
        client.get("/v1/pets/1");
        let set = json!({"status": status});
        assert_eq!(post(&operator, "/api/pets/1/status", &set).status, 200);
        let pets = operator.get("/api/pets?limit=2").json();
        assert_eq!(pets[0]["status"], status);
        assert_eq!(operator.get("/api/pets/1").json()["status"], status);
    }
}

#[test]
fn what_the_dashboard_reads_does_not_count_as_missing_from_the_cache() {
    let (app, operator, client) = start();
    client.create_many(3);
    let misses = || app.store().cache_misses();
    let before = misses();
    for path in ["/api/pets", "/api/pets/1", "/api/pets?limit=2"] {
        assert_eq!(operator.get(path).status, 200);
        assert_eq!(misses(), before, "{path}");
    }
    for path in ["/v1/pets", "/v1/pets/2"] {
        assert_eq!(client.get(path).status, 200);
    }
    assert_eq!(misses(), before + 2);
}
