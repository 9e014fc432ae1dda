//! Keys that expire, are revoked, or change their secret or their plan, on a running server.

use animal_store::key::KeyId;
use animal_store::keys::{self, Confirmation};
use animal_store::plan::Plan;
use harness::{App, Client, enterprise, eventually};

use crate::{MINUTE_END, millis, rejected, secs, send, served, set_plan, within_propagation_time};

/// Rotates a key, and returns a client with the new secret. The old one works for this many more seconds.
fn rotate(app: &App, id: KeyId, grace: u64) -> Client {
    let (store, now) = (app.store(), app.clock.now());
    let rotated = keys::rotate(store, id, secs(grace), Confirmation::Any, now);
    let issued = app.block_on(rotated).expect("a new secret");
    app.client(Some(issued.secret.reveal().to_owned()))
}

fn revoke(app: &App, id: KeyId) {
    let revoked = app.block_on(keys::revoke(app.store(), id, app.clock.now()));
    assert!(revoked.is_ok(), "{revoked:?}");
}

#[test]
fn of_many_concurrent_rotations_without_confirmation_one_succeeds() {
    let (app, ..) = App::start();
    let (id, _) = app.issue(Plan::Free, None);
    let rotations: Vec<_> = std::iter::repeat_with(|| app.second_store())
        .take(8)
        .collect();
    let now = app.clock.now();
    let done: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = rotations
            .iter()
            .map(|store| {
                scope.spawn(move || {
                    let rotated = keys::rotate(store, id, secs(60), Confirmation::None, now);
                    match tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .expect("a runtime")
                        .block_on(rotated)
                    {
                        Ok(_) => true,
                        Err(keys::Error::Rejected(keys::KeyRejection::InGracePeriod(_))) => false,
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{done:?}");
}

#[test]
fn a_confirmation_is_for_the_secret_that_was_seen_and_no_other() {
    let (app, ..) = App::start();
    let (id, _) = app.issue(Plan::Free, None);
    let (store, now) = (app.store(), app.clock.now());
    let rotate = |confirmed| app.block_on(keys::rotate(store, id, secs(60), confirmed, now));
    let seen = || match rotate(Confirmation::None) {
        Err(keys::Error::Rejected(keys::KeyRejection::InGracePeriod(grace))) => {
            Confirmation::ForGracePeriod(grace)
        }
        other => panic!("{other:?}"),
    };
    rotate(Confirmation::None).expect("no grace period");
    let early = seen();
    rotate(seen()).expect("confirmed");
    assert!(rotate(early).is_err(), "another secret is current by now");
}

#[test]
fn a_key_stops_working_exactly_when_it_expires() {
    let (app, ..) = App::start();
    let (_, key) = app.issue(Plan::Free, Some(secs(90)));
    app.clock.advance(millis(89_999));
    served(&key, 1);
    app.clock.advance(millis(1));
    send(&key).is_error(401, "invalid_api_key");
}

#[test]
fn a_revoked_key_is_rejected_within_a_second_and_permanently() {
    let (mut app, ..) = App::start();
    let (id, key) = app.issue(Plan::Free, None);
    served(&key, 1);
    revoke(&app, id);
    let response = within_propagation_time("the end", &key, |response| response.status == 401);
    response.is_error(401, "invalid_api_key");
    app.restart();
    send(&crate::reconnect(&app, &key)).is_error(401, "invalid_api_key");
}

#[test]
fn each_request_of_a_connection_is_that_of_its_own_key_and_a_revocation_ends_one_there_too() {
    let (app, ..) = App::start();
    let (id, first) = app.issue(Plan::Free, None);
    let (_, second) = app.issue(Plan::Pro, None);
    let mut connection = first.connect();
    let mut get = |client: &Client| client.request("GET", "/v1/pets").send_on(&mut connection);
    for count in 1..=2 {
        for (client, limit) in [(&first, 60), (&second, 300)] {
            let remaining = get(client).number("x-ratelimit-remaining");
            assert_eq!(remaining, limit - count);
        }
    }
    assert_eq!(get(&first).status, 200);
    revoke(&app, id);
    eventually(secs(5), "the end of the first", || {
        get(&first).status == 401
    });
    assert_eq!(get(&second).status, 200);
}

#[test]
fn after_a_rotation_the_old_secret_works_until_exactly_the_end_of_the_grace_period() {
    let (app, ..) = App::start();
    let (id, old) = app.issue(enterprise(100, 1_000), None);
    served(&old, 1);
    let new = rotate(&app, id, 3_600);
    served(&new, 1);
    app.clock.advance(millis(3_599_999));
    served(&old, 1);
    served(&new, 1);
    app.clock.advance(millis(1));
    send(&old).is_error(401, "invalid_api_key");
    served(&new, 1);
}

#[test]
fn both_secrets_of_a_rotated_key_use_the_same_counters() {
    let (app, ..) = App::start();
    let (id, old) = app.issue(enterprise(4, 1_000), None);
    assert_eq!(send(&old).rate().1, 3);
    let new = rotate(&app, id, 3_600);
    assert_eq!(send(&new).rate().1, 2);
    assert_eq!(send(&old).rate().1, 1);
    assert_eq!(send(&new).rate().1, 0);
    rejected(&old, 1);
    rejected(&new, 1);
}

#[test]
fn a_rotation_without_a_grace_period_ends_the_old_secret_within_a_second_and_permanently() {
    let (app, ..) = App::start();
    let (id, old) = app.issue(Plan::Free, None);
    served(&old, 1);
    let new = rotate(&app, id, 0);
    within_propagation_time("the end of the old", &old, |response| {
        response.status == 401
    });
    // Permanently, whatever the clock is set to.
    app.clock.set(app.clock.now().minus(secs(3_600)));
    assert_eq!(old.get("/v1/pets").status, 401);
    served(&new, 1);
}

#[test]
fn a_second_rotation_ends_the_first_secret() {
    let (app, ..) = App::start();
    let (id, first) = app.issue(Plan::Free, None);
    let second = rotate(&app, id, 3_600);
    let third = rotate(&app, id, 3_600);
    served(&third, 1);
    served(&second, 1);
    send(&first).is_error(401, "invalid_api_key");
}

#[test]
fn an_old_secret_does_not_outlive_the_key() {
    let (app, ..) = App::start();
    let (id, old) = app.issue(Plan::Free, Some(secs(60)));
    let new = rotate(&app, id, 3_600);
    served(&old, 1);
    app.clock.advance(secs(60));
    send(&old).is_error(401, "invalid_api_key");
    send(&new).is_error(401, "invalid_api_key");
    let (id, old) = app.issue(Plan::Free, None);
    let new = rotate(&app, id, 3_600);
    served(&new, 1);
    revoke(&app, id);
    within_propagation_time("the end of the new", &new, |response| {
        response.status == 401
    });
    send(&old).is_error(401, "invalid_api_key");
}

#[test]
fn the_usage_of_a_key_is_kept_when_its_plan_changes() {
    let (app, ..) = App::start();
    let (id, key) = app.issue(Plan::Free, None);
    served(&key, 10);
    set_plan(&app, id, Plan::Pro);
    let response =
        within_propagation_time("the new plan", &key, |response| response.rate().0 == 300);
    let left = response.rate().1;
    assert!(left < 290, "{response}");
    assert_eq!(send(&key).rate(), (300, left - 1, MINUTE_END));
}

#[test]
fn a_smaller_plan_is_exhausted_immediately_by_earlier_usage() {
    let (app, ..) = App::start();
    let (id, key) = app.issue(Plan::Free, None);
    served(&key, 10);
    set_plan(&app, id, enterprise(5, 1_000));
    let response = within_propagation_time("the new plan", &key, |response| response.status == 429);
    assert_eq!(response.rate(), (5, 0, MINUTE_END));
}
