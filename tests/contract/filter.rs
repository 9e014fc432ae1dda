//! The status filter: which animals it selects, and how it combines with pages.

use harness::{App, Client};
use serde_json::json;

use crate::paging::walk;

const STATUSES: [&str; 3] = ["available", "pending", "sold"];

/// Adds animals of these statuses.
fn add(key: &Client, statuses: &[&str]) {
    for status in statuses {
        let made = key.create(&json!({"name": "a", "categoryId": 1, "status": status}));
        assert_eq!(made.status, 201, "{made}");
    }
}

#[test]
fn a_cursor_belongs_to_its_filter_and_any_other_filter_is_400() {
    let (_app, _, key) = App::start();
    add(&key, &STATUSES.repeat(2));
    let filters = ["", "&status=available", "&status=pending", "&status=sold"];
    for from in filters {
        let next = key.get(&format!("/v1/pets?limit=1{from}")).next().unwrap();
        let (_, cursor) = next.split_once("cursor=").unwrap();
        for to in filters {
            for query in [
                format!("cursor={cursor}{to}"),
                format!("x=1{to}&cursor={cursor}"),
            ] {
                let page = key.get(&format!("/v1/pets?{query}"));
                if from == to {
                    assert_eq!(page.status, 200, "{page}");
                } else {
                    let message = page.is_error(400, "invalid_parameter").message();
                    assert!(
                        message.starts_with("cursor") && message.contains("status"),
                        "{message}"
                    );
                }
            }
        }
        // Nor is it valid for orders.
        let orders = key.get(&format!("/v1/store/orders?cursor={cursor}"));
        let message = orders.is_error(400, "invalid_parameter").message();
        assert!(message.starts_with("cursor"), "{message}");
    }
}

#[test]
fn status_restricts_the_list_to_animals_with_that_status() {
    let (_app, _, key) = App::start();
    add(&key, &["available", "sold", "pending", "sold", "available"]);
    for (status, ids) in STATUSES.into_iter().zip([&[1, 5][..], &[3], &[2, 4]]) {
        let list = key.get(&format!("/v1/pets?status={status}"));
        assert_eq!((list.status, list.ids().as_slice()), (200, ids));
        let all = list.json();
        assert!(
            all.as_array()
                .unwrap()
                .iter()
                .all(|pet| pet["status"] == status)
        );
        assert_eq!(list.header("link"), None);
    }
    assert_eq!(key.get("/v1/pets").ids(), [1, 2, 3, 4, 5]);
}

#[test]
fn a_status_that_no_animal_has_returns_an_empty_array() {
    let (_app, _, key) = App::start();
    add(&key, &["available", "pending"]);
    let list = key.get("/v1/pets?status=sold");
    assert_eq!((list.status, list.body.as_slice()), (200, &b"[]"[..]));
}

#[test]
fn a_filtered_list_has_20_animals_by_default() {
    let (_app, _, key) = App::start();
    for _ in 0..21 {
        add(&key, &["sold", "pending"]);
    }
    let list = key.get("/v1/pets?status=pending");
    assert_eq!(list.ids(), (1..=20).map(|n| 2 * n).collect::<Vec<_>>());
}

#[test]
fn limit_counts_only_the_animals_that_the_filter_selects() {
    let (_app, _, key) = App::start();
    add(
        &key,
        &["sold", "sold", "pending", "sold", "pending", "pending"],
    );
    let list = key.get("/v1/pets?limit=2&status=pending");
    assert_eq!(list.ids(), [3, 5]);
}

#[test]
fn the_link_of_a_filtered_page_carries_limit_status_and_cursor() {
    let (app, _, key) = App::start();
    add(&key, &["sold", "pending", "sold", "sold"]);
    let page = key.get("/v1/pets?status=sold&limit=2");
    let next = page.next().unwrap();
    let base = format!("{}/v1", app.origin());
    let start = format!("{base}/pets?limit=2&status=sold&cursor=");
    assert!(next.starts_with(&start), "{next}");
    let last = key.follow(&next);
    assert_eq!((last.ids(), last.header("link")), (vec![4], None));
}

#[test]
fn a_full_filtered_page_with_only_other_animals_after_it_has_no_link() {
    let (_app, _, key) = App::start();
    add(&key, &["sold", "sold", "pending"]);
    let page = key.get("/v1/pets?status=sold&limit=2");
    assert_eq!((page.ids(), page.header("link")), (vec![1, 2], None));
}

#[test]
fn following_next_of_a_filtered_list_yields_each_of_its_animals_exactly_once_whatever_is_added() {
    let (_app, _, key) = App::start();
    for _ in 0..5 {
        add(&key, &STATUSES);
    }
    let mut late = 4;
    let seen = walk(&key, "/v1/pets?status=pending&limit=2", || {
        if late > 0 {
            late -= 1;
            add(&key, &["sold", "pending"]);
        }
    });
    assert!(seen.starts_with(&[2, 5, 8, 11, 14]), "{seen:?}");
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    let filtered = key.get("/v1/pets?status=pending&limit=100").ids();
    assert!(filtered.starts_with(&seen), "{seen:?}");
}

#[test]
fn a_filtered_page_shows_an_animal_that_is_added_after_it() {
    let (_app, _, key) = App::start();
    add(&key, &["sold", "sold"]);
    let page = || key.get("/v1/pets?status=sold&limit=2");
    assert_eq!((page().ids(), page().next()), (vec![1, 2], None));
    add(&key, &["pending"]);
    assert_eq!((page().ids(), page().next()), (vec![1, 2], None));
    add(&key, &["sold"]);
    assert_eq!(page().ids(), [1, 2]);
    assert_eq!(key.follow(&page().next().unwrap()).ids(), [4]);
}
