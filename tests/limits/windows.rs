//! The two windows: their limits, what counts in them, and when they begin.

use animal_store::clock::Timestamp;
use animal_store::limit::DayUsage;
use animal_store::plan::Plan;
use animal_store::store::UsageRecorder;
use harness::{App, Client, enterprise};
use serde_json::json;

use crate::{
    DAY_END, MINUTE_END, reconnect, rejected, retry_after, secs, send, served, set, set_plan,
    within_propagation_time,
};

#[test]
fn free_has_60_pro_300_and_business_1000_requests_a_minute() {
    let (app, ..) = App::start();
    for (plan, limit) in [(Plan::Free, 60), (Plan::Pro, 300), (Plan::Business, 1_000)] {
        let key = app.key(plan);
        served(&key, limit as usize - 1);
        assert_eq!(send(&key).rate(), (limit, 0, MINUTE_END));
        assert_eq!(rejected(&key, 2).rate(), (limit, 0, MINUTE_END));
    }
}

#[test]
fn free_has_1000_pro_10000_and_business_100000_requests_a_day() {
    let (mut app, ..) = App::start();
    let plans = [
        (Plan::Free, 1_000),
        (Plan::Pro, 10_000),
        (Plan::Business, 100_000),
    ];
    let keys = plans.map(|(plan, limit)| {
        let (id, key) = app.issue(plan, None);
        let now = app.clock.now();
        let all_but_one = DayUsage {
            day: now.day(),
            requests: limit - 1,
            rejected: 0,
            last: now,
        };
        let batch = UsageRecorder::new()
            .unwrap()
            .batch([(app.stored_key(id).identity(), all_but_one)], now);
        app.block_on(app.store().record_usage(&batch.into()))
            .unwrap();
        (key, i64::from(limit))
    });
    app.restart();
    for (key, limit) in keys {
        let key = reconnect(&app, &key);
        assert_eq!(send(&key).rate(), (limit, 0, DAY_END));
        assert_eq!(rejected(&key, 2).rate(), (limit, 0, DAY_END));
    }
}

#[test]
fn the_1001st_request_of_a_free_key_in_a_day_is_rejected_though_its_minute_is_not_exhausted() {
    let (app, ..) = App::start();
    let key = app.key(Plan::Free);
    for _ in 0..16 {
        served(&key, 60);
        app.clock.advance(secs(60));
    }
    served(&key, 40);
    assert_eq!(rejected(&key, 1).rate(), (1_000, 0, DAY_END));
}

#[test]
fn enterprise_has_two_custom_limits_for_each_key() {
    let (app, ..) = App::start();
    let (one, other) = (app.key(enterprise(3, 100)), app.key(enterprise(100, 4)));
    served(&one, 3);
    assert_eq!(rejected(&one, 1).rate(), (3, 0, MINUTE_END));
    served(&other, 4);
    assert_eq!(rejected(&other, 1).rate(), (4, 0, DAY_END));
}

#[test]
fn a_request_rejected_by_the_minute_does_not_count_in_the_day() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(2, 5));
    for _ in 0..2 {
        served(&key, 2);
        rejected(&key, 10);
        app.clock.advance(secs(60));
    }
    served(&key, 1);
    assert_eq!(rejected(&key, 1).rate(), (5, 0, DAY_END));
}

#[test]
fn a_request_rejected_by_the_day_does_not_count_in_the_minute() {
    let (app, ..) = App::start();
    let (id, key) = app.issue(enterprise(3, 2), None);
    served(&key, 2);
    rejected(&key, 5);
    set_plan(&app, id, enterprise(3, 100));
    let third = within_propagation_time("the new plan", &key, |response| response.status == 200);
    assert_eq!(third.rate(), (3, 0, MINUTE_END));
    rejected(&key, 1);
}

#[test]
fn every_authenticated_request_counts_one_whatever_its_response() {
    let (app, anonymous, _) = App::start();
    let key = app.key(enterprise(100, 1_000));
    let pet = json!({"name": "Rex", "categoryId": 1});
    let post = || key.request("POST", "/v1/pets");
    let long = format!("/v1/pets?x={}", "x".repeat(9_000));
    let requests = [
        (200, key.request("GET", "/v1/pets")),
        (200, key.request("HEAD", "/v1/pets")),
        (201, post().json(&pet).header("Idempotency-Key", "k")),
        (201, post().json(&pet).header("Idempotency-Key", "k")),
        (
            422,
            post()
                .json(&json!({"name": "Max", "categoryId": 1}))
                .header("Idempotency-Key", "k"),
        ),
        (200, key.request("GET", "/v1/pets/1")),
        (400, key.request("GET", "/v1/pets?limit=0")),
        (400, key.request("GET", "/v1/pets?cursor=%00")),
        (400, post().json(&json!({}))),
        (404, key.request("GET", "/v1/pets/99")),
        (404, key.request("GET", "/v1/nothing")),
        (404, key.request("GET", "/v1")),
        (405, key.request("DELETE", "/v1/pets")),
        (413, post().json(&json!({"name": "x".repeat(20_000)}))),
        (414, key.request("GET", &long)),
        (415, post().body("{}")),
    ];
    let mut left = 100;
    for (status, request) in requests {
        let response = request.send();
        left -= 1;
        assert_eq!(response.status, status, "{response}");
        assert_eq!(response.rate(), (100, left, MINUTE_END), "{response}");
    }
    for (target, client) in [("/v1/pets", &anonymous), ("/livez", &key), ("/docs", &key)] {
        client.get(target);
    }
    assert_eq!(send(&key).rate().1, left - 1, "nothing else counts");
}

#[test]
fn a_request_for_the_operation_that_was_removed_counts_too() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(100, 1_000));
    set(&app, 1_922_659_200);
    for left in [99, 98] {
        let response = key.get("/v1/pets/1");
        response.is_error(410, "gone");
        assert_eq!(response.rate(), (100, left, 1_922_659_260));
    }
}

#[test]
fn the_day_begins_at_midnight_utc() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(100, 2));
    served(&key, 2);
    app.clock.set(Timestamp::from_millis(DAY_END * 1_000 - 1));
    rejected(&key, 3);
    set(&app, DAY_END);
    assert_eq!(send(&key).rate(), (2, 1, DAY_END + 86_400));
}

#[test]
fn the_minute_begins_with_the_full_minute() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(2, 100));
    served(&key, 2);
    app.clock
        .set(Timestamp::from_millis(MINUTE_END * 1_000 - 1));
    rejected(&key, 3);
    set(&app, MINUTE_END);
    assert_eq!(send(&key).rate(), (2, 1, MINUTE_END + 60));
}

#[test]
fn a_clock_that_steps_back_repeats_no_window() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(2, 3));
    served(&key, 2);
    set(&app, MINUTE_END - 61);
    assert_eq!(rejected(&key, 3).rate(), (2, 0, MINUTE_END));
    set(&app, MINUTE_END);
    served(&key, 1);
    set(&app, DAY_END - 2 * 86_400);
    assert_eq!(rejected(&key, 3).rate(), (3, 0, DAY_END));
}

/// An hour, a day, and 400 days.
const JUMPS: [i64; 3] = [3_600, 86_400, 400 * 86_400];

#[test]
fn after_a_clock_that_jumped_ahead_is_corrected_a_minute_stays_exhausted_for_at_most_a_minute() {
    let (app, ..) = App::start();
    for jump in JUMPS {
        let key = app.key(enterprise(2, 1_000));
        set(&app, MINUTE_END - 50 + jump);
        served(&key, 2);
        set(&app, MINUTE_END - 50);
        let rejection = rejected(&key, 1);
        assert_eq!(rejection.rate(), (2, 0, MINUTE_END), "after {jump} s");
        assert_eq!(retry_after(&rejection), secs(50));
        set(&app, MINUTE_END);
        served(&key, 2);
    }
}

#[test]
fn after_a_clock_that_jumped_ahead_is_corrected_a_day_stays_exhausted_for_at_most_two_days() {
    let (app, ..) = App::start();
    for (jump, end) in JUMPS.into_iter().zip([DAY_END, DAY_END + 86_400, DAY_END]) {
        let key = app.key(enterprise(1_000, 2));
        set(&app, MINUTE_END + jump);
        served(&key, 2);
        set(&app, MINUTE_END);
        assert_eq!(rejected(&key, 1).rate(), (2, 0, end), "after {jump} s");
        set(&app, end);
        served(&key, 2);
    }
}

#[test]
fn a_clock_that_steps_back_however_far_frees_nothing_of_an_exhausted_window() {
    let (app, ..) = App::start();
    for jump in JUMPS {
        let key = app.key(enterprise(2, 1_000));
        set(&app, MINUTE_END - 50);
        served(&key, 2);
        set(&app, MINUTE_END - 50 - jump);
        rejected(&key, 2);
    }
}

#[test]
fn the_windows_of_keys_are_separate() {
    let (app, ..) = App::start();
    let keys: Vec<Client> = (0..3).map(|_| app.key(enterprise(2, 2))).collect();
    for key in &keys {
        served(key, 2);
        rejected(key, 2);
    }
}
