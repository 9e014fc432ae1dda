//! `Retry-After`: whole seconds, rounded up, at least one; and a client that waits exactly that long is served.

use std::time::Duration;

use animal_store::clock::Timestamp;
use harness::{App, Client, enterprise};

use crate::{DAY_END, MINUTE_END, banned, millis, rejected, retry_after, send, served};

/// Milliseconds before a window ends, and the Retry-After then.
const BEFORE_THE_END: [(i64, u64); 7] = [
    (50_000, 50),
    (49_999, 50),
    (49_001, 50),
    (49_000, 49),
    (1_001, 2),
    (1_000, 1),
    (1, 1),
];

/// At each of these moments before `end`: the rejected key gets the time to wait, and is served after it.
fn waits_exactly(app: &App, end: i64, period: i64, exhaust: impl Fn() -> Client) {
    for (round, (before, seconds)) in (0..).zip(BEFORE_THE_END) {
        let end = (end + round * period) * 1_000;
        app.clock.set(Timestamp::from_millis(end - before));
        let key = exhaust();
        let rejection = rejected(&key, 1);
        assert_eq!(
            retry_after(&rejection).as_secs(),
            seconds,
            "{before} ms before"
        );
        app.clock.set(Timestamp::from_millis(end - 1));
        rejected(&key, 1);
        app.clock.set(Timestamp::from_millis(end - before));
        app.clock.advance(retry_after(&rejection));
        served(&key, 1);
    }
}

#[test]
fn a_client_that_waits_exactly_that_long_is_served_in_the_next_minute() {
    let (app, ..) = App::start();
    waits_exactly(&app, MINUTE_END, 60, || {
        let key = app.key(enterprise(2, 1_000));
        served(&key, 2);
        key
    });
}

#[test]
fn a_client_that_waits_exactly_that_long_is_served_on_the_next_day() {
    let (app, ..) = App::start();
    waits_exactly(&app, DAY_END, 86_400, || {
        let key = app.key(enterprise(1_000, 2));
        served(&key, 2);
        key
    });
}

#[test]
fn with_both_windows_exhausted_the_wait_is_for_the_later() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(2, 2));
    served(&key, 2);
    let rejection = rejected(&key, 1);
    assert_eq!(retry_after(&rejection).as_secs(), 43_190);
    app.clock.advance(retry_after(&rejection));
    served(&key, 1);
}

#[test]
fn a_client_that_waits_exactly_that_long_is_served_after_a_ban() {
    let (app, ..) = App::start_with(|config| config.bans.max_rejections = 1);
    for part in [0, 1, 999] {
        app.clock.advance(millis(part));
        let key = app.key(enterprise(1, 1_000));
        served(&key, 1);
        rejected(&key, 1);
        let begin = banned(&key);
        assert_eq!(retry_after(&begin).as_secs(), 300);
        app.clock.advance(millis(1));
        assert_eq!(retry_after(&banned(&key)).as_secs(), 300, "rounded up");
        app.clock.advance(millis(299_998));
        let last = banned(&key);
        assert_eq!(retry_after(&last).as_secs(), 1, "at least one");
        app.clock.advance(millis(1));
        served(&key, 1);
    }
}

#[test]
fn during_a_ban_the_wait_is_for_an_exhausted_window_if_that_ends_later() {
    let (app, ..) = App::start_with(|config| config.bans.max_rejections = 1);
    let key = app.key(enterprise(1_000, 2));
    served(&key, 2);
    rejected(&key, 1);
    let begin = banned(&key);
    assert_eq!(retry_after(&begin).as_secs(), 43_190, "the day outlasts it");
    assert!(begin.message().contains(" 43190 s."), "{begin}");
    app.clock.advance(millis(1_000));
    let later = banned(&key);
    assert_eq!(retry_after(&later).as_secs(), 43_189);
    app.clock.advance(retry_after(&later));
    served(&key, 1);
}

#[test]
fn the_message_of_a_429_names_the_limit() {
    let (app, anonymous, _) = App::start_with(|config| config.bans.max_rejections = 2);
    let minute = app.key(enterprise(1, 1_000));
    let day = app.key(enterprise(1_000, 1));
    let both = app.key(enterprise(1, 1));
    for (key, named) in [
        (&minute, "limit of requests per minute"),
        (&day, "limit of requests per day"),
        (&both, "limit of requests per day"),
    ] {
        served(key, 1);
        let rejection = rejected(key, 1);
        assert!(rejection.message().contains(named), "{rejection}");
    }
    rejected(&minute, 1);
    let ban = banned(&minute);
    assert!(ban.message().contains("temporarily banned"), "{ban}");
    for response in crate::send_many(&anonymous, 60) {
        response.is_error(401, "missing_api_key");
    }
    let rejection = rejected(&anonymous, 1);
    let named = "address has exceeded its limit of failed authentications";
    assert!(rejection.message().contains(named), "{rejection}");
}

#[test]
fn a_client_that_waits_exactly_that_long_may_fail_to_authenticate_again() {
    let (app, anonymous, _) = App::start();
    for (round, (before, seconds)) in (0..).zip(BEFORE_THE_END) {
        let end = (MINUTE_END + round * 120) * 1_000;
        app.clock.set(Timestamp::from_millis(end - before));
        for response in crate::send_many(&anonymous, 60) {
            response.is_error(401, "missing_api_key");
        }
        let rejection = rejected(&anonymous, 1);
        assert_eq!(
            retry_after(&rejection).as_secs(),
            seconds,
            "{before} ms before"
        );
        app.clock.advance(retry_after(&rejection));
        send(&anonymous).is_error(401, "missing_api_key");
    }
}

#[test]
fn the_message_has_the_same_seconds() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(1, 9));
    served(&key, 1);
    app.clock.advance(Duration::from_secs(7));
    let rejection = rejected(&key, 1);
    assert_eq!(retry_after(&rejection).as_secs(), 43);
    assert!(rejection.message().contains(" 43 s."), "{rejection}");
}
