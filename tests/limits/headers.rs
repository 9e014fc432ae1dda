//! Which window the rate limit headers show.

use harness::{App, enterprise};

use crate::{DAY_END, MINUTE_END, rejected, secs, send, served, set};

#[test]
fn headers_show_the_window_with_the_fewest_requests_left() {
    let (app, ..) = App::start();
    assert_eq!(send(&app.key(enterprise(5, 9))).rate(), (5, 4, MINUTE_END));
    assert_eq!(send(&app.key(enterprise(9, 5))).rate(), (5, 4, DAY_END));
}

#[test]
fn on_a_tie_headers_show_the_window_that_resets_later() {
    let (app, ..) = App::start();
    assert_eq!(send(&app.key(enterprise(5, 5))).rate(), (5, 4, DAY_END));
    let key = app.key(enterprise(3, 4));
    assert_eq!(send(&key).rate(), (3, 2, MINUTE_END));
    app.clock.advance(secs(60));
    assert_eq!(send(&key).rate(), (4, 2, DAY_END), "two left in both");
    assert_eq!(send(&key).rate(), (4, 1, DAY_END), "one left in both");
}

#[test]
fn headers_switch_when_the_other_window_becomes_the_tighter() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(3, 4));
    served(&key, 1);
    assert_eq!(send(&key).rate(), (3, 1, MINUTE_END));
    app.clock.advance(secs(60));
    assert_eq!(send(&key).rate(), (4, 1, DAY_END));
}

#[test]
fn a_429_shows_the_exhausted_window_and_of_both_the_later() {
    let (app, ..) = App::start();
    let (minute, day, both) = (
        app.key(enterprise(2, 9)),
        app.key(enterprise(9, 2)),
        app.key(enterprise(2, 2)),
    );
    for (key, shown) in [
        (minute, (2, 0, MINUTE_END)),
        (day, (2, 0, DAY_END)),
        (both, (2, 0, DAY_END)),
    ] {
        served(&key, 2);
        assert_eq!(rejected(&key, 1).rate(), shown);
    }
}

#[test]
fn reset_is_the_end_of_the_aligned_window_in_unix_seconds() {
    let (app, ..) = App::start();
    let (minute, day) = (
        app.key(enterprise(5, 9_999)),
        app.key(enterprise(9_999, 99)),
    );
    for moment in [
        MINUTE_END,
        MINUTE_END + 59,
        MINUTE_END + 60,
        DAY_END - 1,
        DAY_END,
    ] {
        set(&app, moment);
        for part in [0, 1, 499] {
            app.clock.advance(crate::millis(part));
            let (of_minute, of_day) = (send(&minute).rate().2, send(&day).rate().2);
            assert_eq!(of_minute % 60, 0);
            assert!(moment < of_minute && of_minute <= moment + 60);
            assert_eq!(of_day % 86_400, 0);
            assert!(moment < of_day && of_day <= moment + 86_400);
        }
    }
}

#[test]
fn every_response_under_v1_has_the_three_headers_with_a_key_and_without() {
    let (_app, anonymous, key) = App::start();
    // The client checks that every response has them; this test, that they are numbers.
    for target in ["/v1", "/v1/", "/v1/pets", "/v1/pets/1", "/v1/nothing"] {
        for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS"] {
            assert_eq!(anonymous.request(method, target).send().rate().0, 60);
            assert_eq!(key.request(method, target).send().rate().0, 1_000_000);
        }
    }
}

#[test]
fn the_date_is_that_of_the_servers_clock_and_not_of_the_machines() {
    let (app, ..) = App::start();
    let key = app.key(enterprise(5, 9));
    for _ in 0..2 {
        let date = app.clock.now().http_date();
        assert_eq!(send(&key).header("date"), Some(&*date));
        app.clock.advance(secs(7_200));
    }
}
