//! The limit for clients without a key: failed authentications by address.

use animal_store::access::TrustedProxies;
use animal_store::key::Secret;
use animal_store::plan::Plan;
use harness::{App, Client, Response, enterprise};

use crate::{
    MINUTE_END, rejected, retry_after, secs, send, send_many, served, set, within_propagation_time,
};

/// Sends a request through a proxy that forwards it for this address.
fn from(client: &Client, forwarded: &str) -> Response {
    client
        .request("GET", "/v1/pets")
        .header("X-Forwarded-For", forwarded)
        .send()
}

fn behind_a_proxy() -> (App, Client, Client) {
    App::start_with(|config| {
        let proxies = ["127.0.0.1", "10.0.0.0/8"].map(|range| range.parse().expect("a range"));
        config.trusted_proxies = TrustedProxies::new(proxies.to_vec());
    })
}

#[test]
fn an_address_has_60_failed_authentications_a_minute_and_then_429() {
    let (_app, anonymous, _) = App::start();
    for (left, response) in (0..60).rev().zip(send_many(&anonymous, 60)) {
        response.is_error(401, "missing_api_key");
        assert_eq!(response.rate(), (60, left, MINUTE_END));
    }
    let rejection = rejected(&anonymous, 3);
    assert_eq!(rejection.rate(), (60, 0, MINUTE_END));
    assert_eq!(retry_after(&rejection), secs(50));
}

#[test]
fn an_address_is_not_rejected_for_longer_after_a_clock_that_jumped_ahead_is_corrected() {
    let (app, anonymous, _) = App::start();
    for jump in [3_600, 86_400, 400 * 86_400] {
        set(&app, MINUTE_END - 50 + jump);
        send_many(&anonymous, 60);
        set(&app, MINUTE_END - 50);
        let rejection = rejected(&anonymous, 1);
        assert_eq!(retry_after(&rejection), secs(50), "after {jump} s");
        set(&app, MINUTE_END);
        send(&anonymous).is_error(401, "missing_api_key");
    }
}

#[test]
fn missing_malformed_unknown_and_expired_keys_all_count() {
    let (app, anonymous, _) = App::start();
    let (_, expired) = app.issue(Plan::Free, Some(secs(1)));
    served(&expired, 1);
    app.clock.advance(secs(1));
    let unknown = Secret::generate().unwrap();
    let clients = [
        anonymous.clone(),
        anonymous.with_key(Some("nonsense")),
        anonymous.with_key(Some(unknown.reveal())),
        expired,
    ];
    for client in &clients {
        for response in send_many(client, 15) {
            assert_eq!(response.status, 401, "{response}");
        }
    }
    for client in &clients {
        assert_eq!(rejected(client, 2).rate(), (60, 0, MINUTE_END));
    }
}

#[test]
fn every_path_under_v1_counts_and_none_outside() {
    let (_app, anonymous, _) = App::start();
    for target in ["/v1", "/v1/pets", "/v1/pets/1", "/v1/nothing"] {
        for method in ["GET", "POST", "DELETE"] {
            assert_eq!(anonymous.request(method, target).send().status, 401);
        }
    }
    for target in ["/livez", "/docs", "/nothing"] {
        anonymous.get(target);
    }
    assert_eq!(send(&anonymous).rate().1, 60 - 12 - 1);
}

#[test]
fn valid_keys_from_an_exhausted_address_are_not_affected() {
    let (app, anonymous, key) = App::start();
    let limited = app.key(enterprise(5, 9));
    served(&key, 1);
    served(&limited, 1);
    send_many(&anonymous, 60);
    rejected(&anonymous, 100);
    assert_eq!(send(&limited).rate(), (5, 3, MINUTE_END), "its own limit");
    served(&key, 100);
    rejected(&anonymous, 1);
}

#[test]
fn failures_never_become_a_ban() {
    let (_app, anonymous, _) = App::start();
    send_many(&anonymous, 60);
    rejected(&anonymous, 300);
}

#[test]
fn requests_with_keys_do_not_count_against_their_address() {
    let (app, anonymous, key) = App::start();
    served(&key, 100);
    let limited = app.key(enterprise(1, 9));
    served(&limited, 1);
    rejected(&limited, 50);
    assert_eq!(send(&anonymous).rate(), (60, 59, MINUTE_END));
}

#[test]
fn the_next_minute_is_new() {
    let (app, anonymous, _) = App::start();
    send_many(&anonymous, 60);
    rejected(&anonymous, 1);
    app.clock.advance(secs(50));
    assert_eq!(send(&anonymous).rate(), (60, 59, MINUTE_END + 60));
}

#[test]
fn a_brand_new_key_is_not_looked_up_for_an_exhausted_address_but_works_within_a_second() {
    let (app, anonymous, _) = App::start();
    send_many(&anonymous, 60);
    // A key may become known between its creation and its first use; not ten in a row.
    let (mut new, mut rejections) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let key = app.key(Plan::Free);
        let response = send(&key);
        if response.status == 429 {
            rejections.push(response);
        }
        new.push(key);
    }
    assert!(!rejections.is_empty());
    for rejection in rejections {
        assert_eq!(rejection.is_error(429, "rate_limited").rate().0, 60);
    }
    for key in &new {
        within_propagation_time("the new key", key, |response| response.status == 200);
    }
}

#[test]
fn a_brand_new_key_works_immediately_from_an_address_with_one_failure_left() {
    let (app, anonymous, _) = App::start();
    send_many(&anonymous, 59);
    served(&app.key(Plan::Free), 1);
    assert_eq!(send(&anonymous).rate(), (60, 0, MINUTE_END));
}

#[test]
fn behind_a_trusted_proxy_the_address_it_names_counts() {
    let (_app, anonymous, _) = behind_a_proxy();
    for _ in 0..60 {
        assert_eq!(from(&anonymous, "203.0.113.1").status, 401);
    }
    from(&anonymous, "203.0.113.1").is_error(429, "rate_limited");
    assert_eq!(from(&anonymous, "203.0.113.2").rate().1, 59);
    assert_eq!(send(&anonymous).rate().1, 59, "the proxy itself");
}

#[test]
fn what_a_client_wrote_before_the_trusted_proxies_is_not_trusted() {
    let (_app, anonymous, _) = behind_a_proxy();
    for (number, left) in (0..5).zip((55..60).rev()) {
        let forwarded = format!("198.51.100.{number}, 203.0.113.1, 10.1.1.1");
        assert_eq!(from(&anonymous, &forwarded).rate().1, left);
    }
}

#[test]
fn without_a_trusted_proxy_forwarded_addresses_are_ignored() {
    let (_app, anonymous, _) = App::start();
    assert_eq!(from(&anonymous, "203.0.113.1").rate().1, 59);
    assert_eq!(from(&anonymous, "203.0.113.2").rate().1, 58);
}

#[test]
fn ipv6_addresses_count_by_their_64() {
    let (_app, anonymous, _) = behind_a_proxy();
    assert_eq!(from(&anonymous, "2001:db8:0:1::1").rate().1, 59);
    assert_eq!(from(&anonymous, "2001:db8:0:1:ffff::2").rate().1, 58);
    assert_eq!(from(&anonymous, "2001:db8:0:2::1").rate().1, 59);
    assert_eq!(from(&anonymous, "203.0.113.1").rate().1, 59);
    assert_eq!(from(&anonymous, "::ffff:203.0.113.1").rate().1, 58);
}
