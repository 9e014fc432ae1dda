//! Stored usage: for the limit of the day after a restart, and for the usage report.

use std::sync::Arc;

use animal_store::key::{KeyId, KeyIdentity};
use animal_store::limit::{Ban, DayUsage};
use animal_store::store::UsageRecorder;
use futures_util::TryStreamExt;
use harness::{App, START, enterprise, eventually};

use crate::{DAY_END, reconnect, rejected, secs, send, served, set};

/// The key's days as the store has them: day, requests, rejected.
fn usage(app: &App, id: KeyId) -> Vec<(String, i64, i64)> {
    let rows = app
        .block_on(app.store().usage(Some(id)).try_collect::<Vec<_>>())
        .expect("a store");
    rows.into_iter()
        .map(|row| (row.day, row.requests, row.rejected))
        .collect()
}

fn day(name: &str, requests: i64, rejected: i64) -> (String, i64, i64) {
    (name.to_owned(), requests, rejected)
}

#[test]
fn the_usage_of_the_day_survives_every_restart() {
    let (mut app, ..) = App::start();
    let mut key = app.key(enterprise(100, 5));
    for left in [4, 3, 2, 1, 0] {
        assert_eq!(send(&key).rate(), (5, left, DAY_END));
        app.restart();
        key = reconnect(&app, &key);
    }
    assert_eq!(rejected(&key, 1).rate(), (5, 0, DAY_END));
}

#[test]
fn a_restart_on_the_next_day_begins_a_new_day() {
    let (mut app, ..) = App::start();
    let key = app.key(enterprise(100, 5));
    served(&key, 5);
    app.stop();
    set(&app, DAY_END);
    app.restart();
    assert_eq!(
        send(&reconnect(&app, &key)).rate(),
        (5, 4, DAY_END + 86_400)
    );
}

#[test]
fn a_restart_after_the_clock_stepped_back_stays_in_the_day_that_was_reached() {
    let (mut app, ..) = App::start();
    let key = app.key(enterprise(100, 5));
    served(&key, 2);
    set(&app, DAY_END);
    served(&key, 5);
    app.stop();
    set(&app, DAY_END - 8);
    app.restart();
    let key = reconnect(&app, &key);
    assert_eq!(rejected(&key, 1).rate(), (5, 0, DAY_END + 86_400));
}

#[test]
fn a_clock_that_was_a_day_ahead_at_a_start_does_not_give_back_what_was_used() {
    let (mut app, ..) = App::start();
    let key = app.key(enterprise(100, 5));
    served(&key, 5);
    app.stop();
    set(&app, DAY_END + 10);
    app.restart();
    set(&app, DAY_END - 8);
    let key = reconnect(&app, &key);
    assert_eq!(rejected(&key, 1).rate(), (5, 0, DAY_END));
}

#[test]
fn rejected_requests_do_not_count_in_the_day_after_a_restart_either() {
    let (mut app, ..) = App::start();
    let key = app.key(enterprise(2, 5));
    served(&key, 2);
    rejected(&key, 20);
    app.restart();
    app.clock.advance(secs(60));
    let key = reconnect(&app, &key);
    served(&key, 2);
    app.clock.advance(secs(60));
    assert_eq!(send(&key).rate(), (5, 0, DAY_END));
}

#[test]
fn usage_is_kept_by_day_the_latest_first_for_each_key() {
    let (mut app, ..) = App::start();
    let (id, key) = app.issue(enterprise(2, 100), None);
    let (other_id, other) = app.issue(enterprise(9, 9), None);
    served(&key, 2);
    rejected(&key, 3);
    served(&other, 1);
    set(&app, DAY_END);
    served(&key, 1);
    key.get("/v1/nothing");
    app.stop();
    app.restart();
    let expected = [day("2026-11-17", 2, 0), day("2026-11-16", 2, 3)];
    assert_eq!(usage(&app, id), expected);
    assert_eq!(usage(&app, other_id), [day("2026-11-16", 1, 0)]);
}

#[test]
fn requests_during_a_ban_are_counted_as_rejected() {
    let (mut app, ..) = App::start_with(|config| config.bans.max_rejections = 2);
    let (id, key) = app.issue(enterprise(1, 100), None);
    crate::send_many(&key, 10);
    app.restart();
    assert_eq!(usage(&app, id), [day("2026-11-16", 1, 9)]);
}

#[test]
fn usage_reaches_the_store_every_second_while_the_server_runs() {
    let (app, ..) = App::start();
    let (id, key) = app.issue(enterprise(3, 100), None);
    served(&key, 3);
    rejected(&key, 2);
    eventually(secs(2), "the usage is stored", || {
        usage(&app, id) == [day("2026-11-16", 3, 2)]
    });
    rejected(&key, 4);
    eventually(secs(2), "later usage is added", || {
        usage(&app, id) == [day("2026-11-16", 3, 6)]
    });
}

#[test]
fn last_use_is_the_time_of_the_last_request() {
    let (mut app, ..) = App::start();
    let (id, key) = app.issue(enterprise(3, 100), None);
    let last_used = |app: &App| app.stored_key(id).last_used_at;
    assert_eq!(last_used(&app), None);
    served(&key, 1);
    app.clock.advance(secs(5));
    served(&key, 1);
    app.restart();
    assert_eq!(last_used(&app), Some(START.plus(secs(5))));
}

#[test]
fn a_last_use_that_was_stored_while_the_clock_was_ahead_is_replaced_by_the_next_one() {
    let (mut app, ..) = App::start();
    let (id, key) = app.issue(enterprise(3, 100), None);
    app.clock.set(START.plus(secs(30 * 86_400)));
    served(&key, 1);
    app.restart();
    app.clock.set(START);
    served(&reconnect(&app, &key), 1);
    app.restart();
    assert_eq!(app.stored_key(id).last_used_at, Some(START));
}

#[test]
fn a_key_cannot_be_deleted_by_hand() {
    let (app, ..) = App::start();
    let (id, _) = app.issue(enterprise(1, 1), None);
    let deleted = app.sql_client().change("DELETE FROM api_keys");
    let error = deleted.expect_err("a rejection");
    assert!(error.contains("keys revoke"), "{error}");
    app.stored_key(id);
}

#[test]
fn a_key_cannot_get_invalid_limits_by_hand() {
    let (app, ..) = App::start();
    let plan = enterprise(1, 1);
    let (id, _) = app.issue(plan, None);
    let other = app.sql_client();
    for sql in [
        "UPDATE api_keys SET per_minute = 0",
        "UPDATE api_keys SET per_day = 1000000001",
        "UPDATE api_keys SET per_day = NULL",
        "UPDATE api_keys SET plan = 'gold'",
    ] {
        // One engine writes it in upper case.
        let error = other.change(sql).expect_err(sql).to_lowercase();
        assert!(error.contains("check constraint"), "{sql}: {error}");
    }
    assert_eq!(app.stored_key(id).plan, plan);
}

#[test]
fn a_ban_that_is_reported_late_does_not_replace_a_later_one() {
    let (app, ..) = App::start();
    let (id, _) = app.issue(enterprise(1, 1), None);
    let ban = |after: u64| Ban {
        started_at: START.plus(secs(after)),
        until: START.plus(secs(after + 60)),
    };
    for ban_change in [ban(0), ban(9), ban(5)] {
        let identity = app.stored_key(id).identity();
        app.block_on(app.store().record_ban(identity, ban_change))
            .unwrap();
    }
    assert_eq!(app.stored_key(id).ban, Some(ban(9)));
}

#[test]
fn a_batch_of_usage_is_added_once_however_often_and_concurrently_it_is_sent() {
    let (app, ..) = App::start();
    let (id, _) = app.issue(enterprise(9, 9), None);
    let on = DayUsage {
        day: START.day(),
        requests: 3,
        rejected: 1,
        last: START,
    };
    let mut recorder = UsageRecorder::new().expect("randomness");
    let key = app.stored_key(id).identity();
    let first = Arc::new(recorder.batch([(key, on)], START));
    let second = Arc::new(recorder.batch([(key, on)], START));
    let others = Arc::new(
        UsageRecorder::new()
            .expect("randomness")
            .batch([(key, on)], START),
    );
    let expected = [(&first, 1), (&first, 1), (&others, 2), (&second, 3)];
    for (batch, times) in expected.into_iter().chain([(&first, 3), (&second, 3)]) {
        let send = || app.store().record_usage(batch);
        let sent = app.block_on(async { tokio::join!(send(), send(), send(), send()) });
        for sent in [sent.0, sent.1, sent.2, sent.3] {
            sent.expect("a store");
        }
        assert_eq!(usage(&app, id), [day("2026-11-16", 3 * times, times)]);
    }
}

#[test]
fn a_batch_that_is_sent_late_does_not_move_the_last_use_back() {
    let (app, ..) = App::start();
    let (id, _) = app.issue(enterprise(9, 9), None);
    let key = app.stored_key(id).identity();
    let later = START.plus(secs(3_600));
    for last in [later, START] {
        let on = DayUsage {
            day: START.day(),
            requests: 1,
            rejected: 0,
            last,
        };
        let mut recorder = UsageRecorder::new().expect("randomness");
        let batch = Arc::new(recorder.batch([(key, on)], last));
        app.block_on(app.store().record_usage(&batch)).unwrap();
    }
    assert_eq!(app.stored_key(id).last_used_at, Some(later));
}

#[test]
fn usage_and_bans_of_a_lost_key_are_not_stored_for_another_key_that_has_its_id() {
    let (app, ..) = App::start();
    let (id, _) = app.issue(enterprise(9, 9), None);
    let key = app.stored_key(id).identity();
    let lost = KeyIdentity {
        created_at: key.created_at.minus(secs(1)),
        ..key
    };
    let on = |last| DayUsage {
        day: START.day(),
        requests: 3,
        rejected: 1,
        last,
    };
    let ban = Ban {
        started_at: START,
        until: START.plus(secs(60)),
    };
    let usage_of_both = [(lost, on(START.plus(secs(5)))), (key, on(START))];
    let mut recorder = UsageRecorder::new().expect("randomness");
    let batch = Arc::new(recorder.batch(usage_of_both, START));
    app.block_on(app.store().record_ban(lost, ban)).unwrap();
    app.block_on(app.store().record_usage(&batch)).unwrap();
    let stored = app.stored_key(id);
    assert_eq!((stored.ban, stored.last_used_at), (None, Some(START)));
    assert_eq!(usage(&app, id), [day("2026-11-16", 3, 1)]);
}

#[test]
fn a_day_with_more_usage_than_a_counter_holds_is_exhausted_and_does_not_prevent_the_start() {
    let (mut app, ..) = App::start();
    let (id, key) = app.issue(enterprise(100, 5), None);
    served(&key, 1);
    app.stop();
    app.restart();
    let more = "UPDATE usage_by_day SET requests = 5000000000";
    app.sql_client().change(more).expect("a store");
    app.restart();
    assert_eq!(rejected(&reconnect(&app, &key), 1).rate(), (5, 0, DAY_END));
    // Whether the rejection is stored by now depends on the next flush.
    let requests: Vec<_> = usage(&app, id)
        .into_iter()
        .map(|(_, requests, _)| requests)
        .collect();
    assert_eq!(requests, [5_000_000_000]);
}

#[test]
fn usage_by_day_is_kept_for_the_time_of_keep_usage() {
    const DAY: u64 = 24 * 60 * 60;
    let (mut app, ..) = App::start_with(|config| config.keep_usage = secs(30 * DAY));
    let keys: Vec<KeyId> = (0..12)
        .map(|_| app.issue(enterprise(9, 9), None).0)
        .collect();
    let days = |id: KeyId| {
        let key = app.stored_key(id).identity();
        (0..=100).map(move |age| {
            let last = START.minus(secs(age * DAY));
            let on = DayUsage {
                day: last.day(),
                requests: 1,
                rejected: 0,
                last,
            };
            (key, on)
        })
    };
    let mut recorder = UsageRecorder::new().expect("randomness");
    let batch = Arc::new(recorder.batch(keys.iter().copied().flat_map(days), START));
    app.block_on(app.store().record_usage(&batch))
        .expect("a store");
    assert_eq!(usage(&app, keys[0]).len(), 101);
    // Old usage is deleted at every start, and then every minute.
    app.restart();
    eventually(secs(20), "what is too old is gone", || {
        keys.iter().all(|key| usage(&app, *key).len() == 31)
    });
    let oldest = usage(&app, keys[11]).pop();
    assert_eq!(oldest, Some(day("2026-10-17", 1, 0)));
    // The records of batches are deleted, too, once none of them could be sent again.
    app.clock.advance(secs(31 * DAY));
    app.restart();
    eventually(secs(20), "nothing is left", || {
        keys.iter().all(|key| usage(&app, *key).is_empty())
    });
    app.block_on(app.store().record_usage(&batch))
        .expect("a store");
    assert_eq!(
        usage(&app, keys[0]).len(),
        101,
        "the batch is unknown again"
    );
}
