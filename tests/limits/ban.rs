//! The ban of a key that continues after being rate limited.

use std::time::Duration;

use animal_store::clock::Timestamp;
use animal_store::key::KeyId;
use harness::{App, Client, Response, START, enterprise, eventually};
use serde_json::json;

use crate::{
    DAY_END, MINUTE_END, banned, millis, reconnect, rejected, retry_after, secs, send, send_many,
    served, set, within_propagation_time,
};

/// A server that bans after one rejection.
fn strict() -> App {
    App::start_with(|config| config.bans.max_rejections = 1).0
}

/// Sends requests until the key is banned, and returns the first response that reports the ban.
fn get_banned(client: &Client) -> Response {
    let responses = send_many(client, 110).into_iter();
    let is_ban = |response: &Response| response.status == 429 && response.code() == "key_banned";
    responses.into_iter().find(is_ban).expect("a ban")
}

/// Waits until a ban is stored, which happens in the background.
fn is_stored(app: &App, id: KeyId) {
    eventually(secs(5), "the ban is stored", || {
        app.stored_key(id).ban.is_some()
    });
}

/// The end of the ban that begins now, in seconds from now.
fn length_of_next_ban(client: &Client) -> u64 {
    retry_after(&get_banned(client)).as_secs()
}

#[test]
fn a_hundred_429s_within_a_minute_are_tolerated_and_the_101st_is_a_ban_of_5_minutes() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(1, 1_000));
    served(&key, 1);
    rejected(&key, 100);
    let ban = banned(&key);
    assert_eq!(retry_after(&ban), secs(300));
    assert!(ban.message().contains(" 300 s."), "{ban}");
}

#[test]
fn rejections_do_not_prolong_a_ban() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(1, 1_000));
    get_banned(&key);
    for left in [300, 200, 100] {
        for response in send_many(&key, 150) {
            response.is_error(429, "key_banned");
            assert_eq!(retry_after(&response).as_secs(), left);
        }
        app.clock.advance(secs(100));
    }
    served(&key, 1);
}

#[test]
fn rejections_during_a_ban_do_not_count_towards_the_next() {
    let (app, ..) = App::start_with(|config| {
        config.bans.max_rejections = 5;
        config.bans.first_duration = secs(1);
    });
    let key = app.key(enterprise(1, 1_000));
    served(&key, 1);
    rejected(&key, 5);
    send_many(&key, 50);
    app.clock.advance(secs(1));
    rejected(&key, 5);
    banned(&key);
}

#[test]
fn each_further_ban_within_24_hours_lasts_twice_the_one_before_and_an_hour_at_most() {
    let app = strict();
    let key = app.key(enterprise(1, 1_000));
    for minutes in [5, 10, 20, 40, 60, 60] {
        let length = length_of_next_ban(&key);
        assert_eq!(length, minutes * 60);
        app.clock.advance(secs(length) - millis(1));
        banned(&key);
        app.clock.advance(millis(1));
    }
}

#[test]
fn a_ban_24_hours_after_the_last_is_a_first_one_again() {
    let app = strict();
    let key = app.key(enterprise(1, 1_000));
    let hour = 3_600;
    for (pause, minutes) in [(0, 5), (23 * hour, 10), (23 * hour, 20), (25 * hour, 5)] {
        app.clock.advance(secs(pause));
        assert_eq!(length_of_next_ban(&key), minutes * 60, "after {pause} s");
    }
}

#[test]
fn ban_after_0_disables_bans() {
    let (app, ..) = App::start_with(|config| config.bans.max_rejections = 0);
    let key = app.key(enterprise(1, 1_000));
    served(&key, 1);
    rejected(&key, 300);
}

#[test]
fn ban_after_and_ban_for_change_number_and_length() {
    let (app, ..) = App::start_with(|config| {
        config.bans.max_rejections = 3;
        config.bans.first_duration = secs(17);
    });
    // So late in the minute that the ban outlasts it.
    set(&app, MINUTE_END - 10);
    let key = app.key(enterprise(1, 1_000));
    served(&key, 1);
    rejected(&key, 3);
    assert_eq!(retry_after(&banned(&key)), secs(17));
    app.clock.advance(secs(60));
    assert_eq!(length_of_next_ban(&key), 34);
}

#[test]
fn rejections_spread_over_two_minutes_cause_no_ban() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(1, 1_000));
    for _ in 0..3 {
        served(&key, 1);
        rejected(&key, 100);
        app.clock.advance(secs(60));
    }
    served(&key, 1);
    rejected(&key, 100);
    banned(&key);
}

#[test]
fn rejections_by_the_day_count_towards_a_ban_too() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(1_000, 1));
    served(&key, 1);
    rejected(&key, 100);
    banned(&key);
}

#[test]
fn during_a_ban_headers_show_nothing_left_until_its_end() {
    let app = strict();
    let key = app.key(enterprise(2, 1_000));
    let end = START.as_secs_ceil() + 300;
    assert_eq!(get_banned(&key).rate(), (2, 0, end));
    app.clock.advance(secs(120));
    assert_eq!(banned(&key).rate(), (2, 0, end), "with a fresh minute");
}

#[test]
fn during_a_ban_headers_show_an_exhausted_day_if_that_ends_later() {
    let app = strict();
    let key = app.key(enterprise(9, 2));
    assert_eq!(get_banned(&key).rate(), (2, 0, DAY_END));
    let key = app.key(enterprise(9, 2));
    set(&app, DAY_END - 100);
    assert_eq!(
        get_banned(&key).rate(),
        (9, 0, DAY_END + 200),
        "the ban ends later"
    );
}

#[test]
fn reset_is_rounded_up_where_a_ban_ends_within_a_second() {
    let app = strict();
    app.clock.set(Timestamp::from_millis(START.as_millis() + 1));
    let ban = get_banned(&app.key(enterprise(2, 1_000)));
    assert_eq!(ban.rate().2, START.as_secs_ceil() + 301);
}

#[test]
fn a_banned_key_can_do_nothing_and_other_keys_everything() {
    let app = strict();
    let (key, other) = (app.key(enterprise(1, 9)), app.key(enterprise(9, 9)));
    get_banned(&key);
    key.create(&json!({"name": "Rex", "categoryId": 1}))
        .is_error(429, "key_banned");
    for target in ["/v1", "/v1/pets/1", "/v1/nothing"] {
        key.get(target).is_error(429, "key_banned");
    }
    assert_eq!(other.get("/v1/pets").json(), json!([]));
}

#[test]
fn a_ban_outlives_a_restart_and_so_does_its_length_for_the_next() {
    let mut app = strict();
    let key = app.key(enterprise(1, 1_000));
    get_banned(&key);
    app.clock.advance(secs(100));
    app.restart();
    let key = reconnect(&app, &key);
    assert_eq!(retry_after(&banned(&key)), secs(200));
    app.clock.advance(secs(200));
    served(&key, 1);
    app.restart();
    let key = reconnect(&app, &key);
    assert_eq!(length_of_next_ban(&key), 600);
}

#[test]
fn an_unbanned_key_is_served_within_a_second_and_its_bans_are_forgotten() {
    let app = strict();
    let (id, key) = app.issue(enterprise(1, 1_000), None);
    get_banned(&key);
    is_stored(&app, id);
    app.clock.advance(secs(60));
    banned(&key);
    let unbanned = animal_store::keys::unban(app.store(), id, app.clock.now());
    let (record, ended) = app.block_on(unbanned).unwrap();
    assert!(record.ban.is_none() && ended.is_some());
    within_propagation_time("the unban", &key, |response| response.status == 200);
    app.clock.advance(Duration::from_secs(60));
    assert_eq!(length_of_next_ban(&key), 300);
}

#[test]
fn a_ban_from_a_clock_that_jumped_ahead_lasts_its_length_from_the_correction_on() {
    let mut app = strict();
    let now = START.as_secs_ceil();
    let jumps = [3_600, 86_400, 400 * 86_400];
    let keys = jumps.map(|jump| {
        set(&app, now + jump);
        let (id, key) = app.issue(enterprise(1, 1_000), None);
        get_banned(&key);
        (id, key)
    });
    let remaining = |keys: &[(KeyId, Client)], left: u64| {
        for ((_, key), jump) in keys.iter().zip(jumps) {
            assert_eq!(retry_after(&banned(key)), secs(left), "after {jump} s");
        }
    };
    set(&app, now);
    remaining(&keys, 300);
    // The corrections are stored, and the server has read them: until then it may read the old date once more.
    eventually(secs(5), "the corrections are stored", || {
        let started_at = |id| Some(app.stored_key(id).ban?.started_at);
        keys.iter().all(|(id, _)| started_at(*id) == Some(START))
    });
    // Changes are read in their order: where a later one is in effect, the corrections have been read.
    let (later, client) = app.issue(enterprise(1_000, 10_000), None);
    served(&client, 1);
    crate::set_plan(&app, later, enterprise(1_001, 10_000));
    within_propagation_time("a later change", &client, |response| {
        response.rate().0 == 1_001
    });
    set(&app, now + 100);
    remaining(&keys, 200);
    // They are permanent: neither a restart nor another change of the key brings the old date back.
    app.restart();
    let keys = keys.map(|(id, key)| (id, reconnect(&app, &key)));
    remaining(&keys, 200);
    set(&app, now + 300);
    keys.iter().for_each(|(_, key)| served(key, 1));
    set(&app, now + 360);
    app.restart();
    keys.iter()
        .for_each(|(_, key)| served(&reconnect(&app, key), 1));
}

#[test]
fn an_unban_ends_the_ban_though_the_clock_has_stepped_back_since_it_began() {
    let app = strict();
    let (id, key) = app.issue(enterprise(1, 1_000), None);
    get_banned(&key);
    is_stored(&app, id);
    app.clock.set(Timestamp::from_millis(START.as_millis() - 1));
    let unbanned = app.block_on(animal_store::keys::unban(app.store(), id, app.clock.now()));
    let (record, ended) = unbanned.expect("a store");
    assert!(ended.is_some() && record.ban.is_none());
    assert!(record.unbanned_at >= Some(START), "{record:?}");
    app.clock.advance(secs(60));
    within_propagation_time("the unban", &key, |response| response.status == 200);
}

#[test]
fn an_unban_from_a_clock_that_ran_ahead_does_not_hide_the_next_ban() {
    let mut app = strict();
    let (id, key) = app.issue(enterprise(1_000, 10_000), None);
    let ahead = START.plus(secs(86_400));
    let unbanned = app.block_on(animal_store::keys::unban(app.store(), id, ahead));
    unbanned.expect("a store");
    // With a later change of the key, the server knows the unban, too.
    crate::set_plan(&app, id, enterprise(1, 10_000));
    within_propagation_time("the unban", &key, |response| response.rate().0 == 1);
    get_banned(&key);
    crate::set_plan(&app, id, enterprise(7, 1_000));
    let response = within_propagation_time("the new plan", &key, |response| response.rate().0 == 7);
    response.is_error(429, "key_banned");
    app.restart();
    banned(&reconnect(&app, &key));
    assert!(app.stored_key(id).ban.is_some());
}

#[test]
fn a_change_of_plan_does_not_end_a_ban() {
    let app = strict();
    let (id, key) = app.issue(enterprise(1, 1_000), None);
    get_banned(&key);
    crate::set_plan(&app, id, enterprise(7, 1_000));
    let response = within_propagation_time("the new plan", &key, |response| response.rate().0 == 7);
    response.is_error(429, "key_banned");
    assert_eq!(send(&key).rate().1, 0);
}

#[test]
fn a_ban_that_could_not_be_stored_immediately_is_stored_later_and_outlives_a_restart() {
    let mut app = strict();
    let (id, key) = app.issue(enterprise(1, 1_000), None);
    let other_key = app.key(enterprise(1_000, 1_000));
    let other = app.sql_client();
    other.lock_all();
    get_banned(&key);
    // The attempt to store it has begun before this one, and fails like this one.
    let creation = other_key.create(&json!({"name": "Rex", "categoryId": 1}));
    assert_eq!(creation.status, 503);
    other.unlock();
    app.restart();
    banned(&reconnect(&app, &key));
    // The 429 alone does not prove it: with Redis, the ban would outlive the restart anyway.
    assert!(app.stored_key(id).ban.is_some());
}
