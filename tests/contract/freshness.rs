//! The cache stays current: a status that another process changes is visible within a second, or within five on
//! PostgreSQL.
use harness::{App, Client, eventually, propagation_time};

use crate::rex;

/// A server with five animals, all pending, whose lists and animals were requested before, so that they are cached.
fn warm() -> (App, Client) {
    let (app, _, key) = App::start();
    for _ in 0..5 {
        key.create(&rex());
    }
    for _ in 0..3 {
        for target in [
            "/v1/pets?limit=2",
            "/v1/pets?limit=2&status=pending",
            "/v1/pets/1",
        ] {
            assert_eq!(key.get(target).status, 200);
        }
    }
    (app, key)
}

#[test]
fn a_status_changed_by_another_process_is_visible_in_an_animal_within_a_second() {
    let (app, key) = warm();
    let other = app.sql_client();
    other
        .change("UPDATE pets SET status = 'sold' WHERE id = 1")
        .unwrap();
    eventually(propagation_time(), "the new status", || {
        key.get("/v1/pets/1").json()["status"] == "sold"
    });
}

#[test]
fn a_status_changed_by_another_process_is_visible_in_a_list_within_a_second() {
    let (app, key) = warm();
    let other = app.sql_client();
    other
        .change("UPDATE pets SET status = 'sold' WHERE id = 1")
        .unwrap();
    eventually(propagation_time(), "the new status", || {
        key.get("/v1/pets?limit=2").json()[0]["status"] == "sold"
    });
}

#[test]
fn a_status_changed_by_another_process_moves_the_animal_between_filtered_lists_within_a_second() {
    let (app, key) = warm();
    assert_eq!(key.get("/v1/pets?status=sold").ids(), [0; 0]);
    let other = app.sql_client();
    other
        .change("UPDATE pets SET status = 'sold' WHERE id IN (1, 3)")
        .unwrap();
    eventually(propagation_time(), "the filtered lists", || {
        key.get("/v1/pets?limit=2&status=pending").ids() == [2, 4]
            && key.get("/v1/pets?limit=2&status=sold").ids() == [1, 3]
    });
}

#[test]
fn each_of_several_changes_is_visible_within_a_second() {
    let (app, key) = warm();
    let other = app.sql_client();
    for status in ["sold", "available", "pending"] {
        other
            .change(&format!("UPDATE pets SET status = '{status}'"))
            .unwrap();
        eventually(propagation_time(), status, || {
            key.get("/v1/pets/1").json()["status"] == status
                && key.get("/v1/pets?limit=2").json()[1]["status"] == status
        });
    }
}

#[test]
fn an_animal_added_by_another_process_is_visible_immediately() {
    let (app, key) = warm();
    assert_eq!(key.get("/v1/pets?limit=5").next(), None);
    let other = app.sql_client();
    other.add_pet("Mia", 1, "sold");
    assert_eq!(key.get("/v1/pets").ids(), [1, 2, 3, 4, 5, 6]);
    assert!(key.get("/v1/pets?limit=5").next().is_some());
    assert_eq!(key.get("/v1/pets/6").json()["name"], "Mia");
}
