//! Pages: the link from one to the next, and the animals that a client gets by following it.

use harness::{App, Client};
use serde_json::json;

/// Follows `next` to its end and returns every ID; `meanwhile` is called between the pages.
pub(crate) fn walk(key: &Client, start: &str, mut meanwhile: impl FnMut()) -> Vec<i64> {
    let mut page = key.get(start);
    let mut seen = page.ids();
    while let Some(next) = page.next() {
        meanwhile();
        page = key.follow(&next);
        assert!(!page.ids().is_empty(), "a link to an empty page: {page}");
        seen.extend(page.ids());
    }
    seen
}

#[test]
fn a_page_with_more_after_it_links_to_the_next_one_by_limit_and_cursor() {
    let (app, _, key) = App::start();
    key.create_many(21);
    for (query, limit) in [("", 20), ("?limit=3", 3), ("?x=1&limit=3", 3)] {
        let page = key.get(&format!("/v1/pets{query}"));
        let link = page.header("link").unwrap();
        let start = format!("<{}/v1/pets?limit={limit}&cursor=", app.origin());
        let rest = link.strip_prefix(&start).expect(link);
        let cursor = rest.strip_suffix(">; rel=\"next\"").expect(link);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        assert!(!cursor.is_empty() && cursor.chars().all(plain), "{link}");
    }
}

#[test]
fn the_next_page_begins_after_the_last_animal_of_the_previous_one() {
    let (_app, _, key) = App::start();
    key.create_many(5);
    let first = key.get("/v1/pets?limit=2");
    let second = key.follow(&first.next().unwrap());
    let third = key.follow(&second.next().unwrap());
    assert_eq!(
        [first.ids(), second.ids(), third.ids()],
        [vec![1, 2], vec![3, 4], vec![5]]
    );
    assert_eq!(third.header("link"), None);
}

#[test]
fn a_full_page_with_nothing_after_it_has_no_link() {
    let (_app, _, key) = App::start();
    key.create_many(4);
    let first = key.get("/v1/pets?limit=2");
    let last = key.follow(&first.next().unwrap());
    assert_eq!((last.ids(), last.header("link")), (vec![3, 4], None));
    assert_eq!(key.get("/v1/pets?limit=4").header("link"), None);
}

#[test]
fn links_are_below_the_public_url() {
    let (_app, _, key) = App::start_with(|config| {
        config.public_url = Some("https://animals.example/api/v1".parse().unwrap());
    });
    key.create_many(2);
    let next = key.get("/v1/pets?limit=1").next().unwrap();
    let start = "https://animals.example/api/v1/pets?limit=1&cursor=";
    assert!(next.starts_with(start), "{next}");
}

#[test]
fn a_page_is_the_same_when_it_is_requested_again() {
    let (_app, _, key) = App::start();
    key.create_many(5);
    let next = key.get("/v1/pets?limit=2").next().unwrap();
    let (once, again) = (key.follow(&next), key.follow(&next));
    assert_eq!((&once.body, once.next()), (&again.body, again.next()));
}

#[test]
fn following_next_to_its_end_yields_every_animal_exactly_once_whatever_is_added_meanwhile() {
    let (_app, _, key) = App::start();
    key.create_many(10);
    for limit in [1, 3, 5, 10] {
        let before = key.get("/v1/pets?limit=100").ids();
        let mut late = 3;
        let seen = walk(&key, &format!("/v1/pets?limit={limit}"), || {
            if late > 0 {
                late -= 1;
                key.create(&json!({"name": "late", "categoryId": 1}));
            }
        });
        assert!(seen.starts_with(&before), "{seen:?}");
        assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    }
}

#[test]
fn a_walk_while_others_add_yields_every_animal_that_existed_exactly_once() {
    let (_app, _, key) = App::start();
    key.create_many(30);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| key.create_many(30));
        walk(&key, "/v1/pets?limit=2", || {})
    });
    assert!(seen.len() >= 30);
    assert_eq!(seen, (1..=seen.len() as i64).collect::<Vec<_>>());
}

#[test]
fn a_page_that_was_the_last_shows_what_is_added_after_it() {
    let (_app, _, key) = App::start();
    let next = || key.get("/v1/pets?limit=2").next().is_some();
    for (count, has_next) in [(0, false), (1, false), (2, false), (3, true), (4, true)] {
        let shown: Vec<_> = (1..=count.min(2)).collect();
        // Twice, so that a cached page is read, too.
        for _ in 0..2 {
            assert_eq!(key.get("/v1/pets?limit=2").ids(), shown);
            assert_eq!(next(), has_next, "{count} animals");
        }
        key.create_many(1);
    }
}

#[test]
fn a_page_in_the_middle_stays_as_it_is_when_animals_are_added() {
    let (_app, _, key) = App::start();
    key.create_many(4);
    let first = key.get("/v1/pets?limit=2");
    key.create_many(3);
    let again = key.get("/v1/pets?limit=2");
    assert_eq!((&first.body, first.next()), (&again.body, again.next()));
    assert_eq!(walk(&key, "/v1/pets?limit=2", || {}), [1, 2, 3, 4, 5, 6, 7]);
}
