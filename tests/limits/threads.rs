//! Many concurrent clients.

use std::sync::Barrier;

use futures_util::TryStreamExt;
use harness::{App, Client, Response, enterprise};

use crate::{secs, send_many};

/// Sixteen threads, each with its own connection, send this many requests each.
fn sixteen(client: &Client, times: usize) -> Vec<Response> {
    let together = Barrier::new(16);
    let send = || {
        together.wait();
        send_many(client, times)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(send)).collect();
        let responses = threads.into_iter().map(|thread| thread.join());
        responses
            .flat_map(|responses| responses.expect("responses"))
            .collect()
    })
}

fn count(responses: &[Response], status: u16) -> usize {
    responses
        .iter()
        .filter(|response| response.status == status)
        .count()
}

/// The requests left, as admitted requests got them: each number once, down to zero, if no two were counted as one.
fn left(responses: &[Response], status: u16) -> Vec<i64> {
    let admitted = responses
        .iter()
        .filter(|response| response.status == status);
    let mut left: Vec<_> = admitted.map(|response| response.rate().1).collect();
    left.sort_unstable();
    left
}

#[test]
fn sixteen_threads_on_one_key_admit_exactly_the_limit() {
    let (mut app, ..) = App::start_with(|config| config.bans.max_rejections = 0);
    for plan in [enterprise(500, 100_000), enterprise(100_000, 500)] {
        let (id, key) = app.issue(plan, None);
        let key = crate::reconnect(&app, &key);
        let responses = sixteen(&key, 50);
        assert_eq!((count(&responses, 200), count(&responses, 429)), (500, 300));
        assert_eq!(left(&responses, 200), (0..500).collect::<Vec<_>>());
        app.restart();
        let usage = app
            .block_on(app.store().usage(Some(id)).try_collect::<Vec<_>>())
            .unwrap();
        assert_eq!((usage[0].requests, usage[0].rejected), (500, 300));
    }
}

#[test]
fn sixteen_threads_without_a_key_fail_exactly_60_times() {
    let (_app, anonymous, _) = App::start();
    let responses = sixteen(&anonymous, 10);
    assert_eq!((count(&responses, 401), count(&responses, 429)), (60, 100));
    assert_eq!(left(&responses, 401), (0..60).collect::<Vec<_>>());
}

#[test]
fn sixteen_threads_cause_one_ban_after_exactly_as_many_rejections() {
    let (app, ..) = App::start_with(|config| config.bans.max_rejections = 20);
    let key = app.key(enterprise(30, 1_000));
    let responses = sixteen(&key, 10);
    let rejections: Vec<_> = responses
        .iter()
        .filter(|response| response.status == 429)
        .collect();
    let bans = rejections
        .iter()
        .filter(|response| response.code() == "key_banned");
    assert_eq!((rejections.len(), bans.clone().count()), (130, 110));
    assert!(
        bans.into_iter()
            .all(|ban| crate::retry_after(ban) == secs(300))
    );
}
