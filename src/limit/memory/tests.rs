use super::*;
use crate::limit::Period;

fn limits(minute: u32, day: u32) -> Limits {
    Limits::new(minute, day).unwrap()
}

fn bans_after(max_rejections: u32) -> BanPolicy {
    BanPolicy {
        max_rejections,
        ..BanPolicy::default()
    }
}

/// A ban of 300 seconds.
fn ban(start: i64) -> Ban {
    Ban {
        started_at: Timestamp::from_secs(start),
        until: Timestamp::from_secs(start + 300),
    }
}

/// A decision of another limiter to reject a request in the second minute, with one request counted in each window.
fn rejection(ban: Option<Ban>) -> SharedDecision {
    SharedDecision {
        now: Timestamp::from_secs(60),
        admitted: false,
        is_new_ban: false,
        windows: Windows::at((1, 1), (0, 1)),
        ban,
        unban_known: None,
    }
}

#[test]
fn an_unban_ends_the_ban_and_resets_the_rejections() {
    let meter = Meter::default();
    let policy = bans_after(1);
    let now = Timestamp::from_secs(60);
    let decide = || meter.decide(limits(1, 9), &policy, now).admission;
    decide();
    decide();
    assert!(matches!(decide(), Admission::Banned { new: Some(_), .. }));
    meter.apply_bans(None, Some(now));
    assert!(matches!(decide(), Admission::RateLimited { .. }));
}

#[test]
fn rejections_of_a_minute_that_a_shared_decision_has_ended_do_not_count_in_the_next() {
    let meter = Meter::default();
    let policy = bans_after(10);
    let alone = |secs, times: usize| {
        let now = Timestamp::from_secs(secs);
        let decide = |_| meter.decide(limits(1, 99), &policy, now).admission;
        (0..times).map(decide).collect::<Vec<_>>()
    };
    // Redis is unavailable for 1 request and 8 rejections, decides the first of the next minute, and is unavailable again.
    assert_eq!(alone(10, 9)[0], Admission::Admitted);
    let decided = SharedDecision {
        now: Timestamp::from_secs(61),
        admitted: true,
        ..rejection(None)
    };
    meter.adopt(limits(1, 99), &decided);
    let is_rejection = |admission: &Admission| matches!(admission, Admission::RateLimited { .. });
    let next = alone(62, 3);
    assert!(next.iter().all(is_rejection), "{next:?}");
}

#[test]
fn an_unban_dated_before_a_ban_does_not_end_it() {
    let meter = Meter::default();
    meter.apply_bans(Some(ban(50)), None);
    meter.apply_bans(None, Some(Timestamp::from_secs(40)));
    assert_eq!(meter.node_state().ban, Some(ban(50)));
}

#[test]
fn the_usage_to_store_is_all_since_the_last_time() {
    let meter = Meter::default();
    let count = |secs| {
        meter.decide(
            limits(9, 9),
            &BanPolicy::default(),
            Timestamp::from_secs(secs),
        )
    };
    assert!(count(10).first_unstored);
    assert!(!count(20).first_unstored);
    let read = || {
        let usage = meter.take_unstored();
        assert_eq!(usage.len(), 1);
        (usage[0].requests, usage[0].last)
    };
    assert_eq!(read(), (2, Timestamp::from_secs(20)));
    assert!(count(30).first_unstored);
    assert_eq!(read(), (1, Timestamp::from_secs(30)));
    assert!(meter.take_unstored().is_empty());
}

#[test]
fn a_shared_decision_is_returned_as_it_was_made() {
    let adopt = |decided: &SharedDecision| Meter::default().adopt(limits(1, 99), decided).admission;
    let admitted = SharedDecision {
        admitted: true,
        ..rejection(Some(ban(50)))
    };
    assert_eq!(adopt(&admitted), Admission::Admitted);
    for is_new_ban in [false, true] {
        let decided = SharedDecision {
            is_new_ban,
            ..rejection(Some(ban(58)))
        };
        let banned = Admission::Banned {
            until: ban(58).until,
            new: is_new_ban.then_some(ban(58)),
        };
        assert_eq!(adopt(&decided), banned);
    }
    for over in [None, Some(ban(-240))] {
        let limited = Admission::RateLimited {
            by: Period::Minute,
            until: Timestamp::from_secs(120),
        };
        assert_eq!(adopt(&rejection(over)), limited);
    }
}

#[test]
fn a_ban_whose_announcement_was_lost_is_returned_once_and_a_stored_or_corrected_one_never() {
    let adopt = |meter: &Meter, start| {
        meter
            .adopt(limits(1, 99), &rejection(Some(ban(start))))
            .unstored_ban
    };
    let meter = Meter::default();
    assert_eq!(adopt(&meter, 56), None, "another node may be storing it");
    assert_eq!(adopt(&meter, 55), Some(ban(55).into()));
    assert_eq!(adopt(&meter, 55), None);
    let meter = Meter::default();
    meter.apply_bans(Some(ban(55)), None);
    assert_eq!(adopt(&meter, 55), None);
    // By a shared decision, and by this node alone.
    let meter = Meter::default();
    meter.apply_bans(Some(ban(500)), None);
    let replaces = Some(Timestamp::from_secs(500));
    let ban_change = BanChange {
        ban: ban(55),
        replaces,
    };
    assert_eq!(adopt(&meter, 55), Some(ban_change));
    assert_eq!(adopt(&meter, 55), None);
    let meter = Meter::default();
    meter.apply_bans(Some(ban(500)), None);
    let policy = BanPolicy::default();
    let corrected = meter.decide(limits(1, 9), &policy, Timestamp::from_secs(55));
    assert!(corrected.unstored_ban.is_some());
    assert_eq!(adopt(&meter, 55), None);
}

#[test]
fn the_usage_of_a_shared_decision_is_stored_too() {
    let meter = Meter::default();
    assert!(meter.adopt(limits(1, 99), &rejection(None)).first_unstored);
    assert!(!meter.adopt(limits(1, 99), &rejection(None)).first_unstored);
    let usage = meter.take_unstored();
    assert_eq!((usage[0].requests, usage[0].rejected), (0, 2));
}

#[test]
fn rejections_before_and_after_a_shared_decision_of_the_same_minute_count_together() {
    let meter = Meter::default();
    let policy = bans_after(10);
    let now = Timestamp::from_secs(60);
    let decide = || meter.decide(limits(1, 99), &policy, now).admission;
    for _ in 0..6 {
        decide();
    }
    meter.adopt(limits(1, 99), &rejection(None));
    for _ in 0..5 {
        assert!(matches!(decide(), Admission::RateLimited { .. }));
    }
    assert!(matches!(decide(), Admission::Banned { new: Some(_), .. }));
}

#[test]
fn a_ban_from_a_clock_that_ran_ahead_is_corrected_by_the_first_decision_and_returned_once() {
    let meter = Meter::default();
    meter.apply_bans(Some(ban(500)), None);
    let decide = || {
        let now = Timestamp::from_secs(60);
        meter
            .decide(limits(1, 9), &BanPolicy::default(), now)
            .unstored_ban
    };
    let corrected = BanChange {
        ban: ban(60),
        replaces: Some(ban(500).started_at),
    };
    assert_eq!(decide(), Some(corrected));
    assert_eq!(decide(), None);
    assert_eq!(meter.node_state().ban, Some(ban(60)));
}

#[test]
fn a_ban_that_a_shared_decision_has_corrected_is_returned_and_no_other() {
    let new = SharedDecision {
        is_new_ban: true,
        ..rejection(Some(ban(60)))
    };
    for (before, decided, is_corrected) in [
        (Some(ban(500)), rejection(Some(ban(60))), true),
        (Some(ban(500)), rejection(Some(ban(500))), false),
        (Some(ban(500)), rejection(Some(ban(-240))), false),
        (Some(ban(500)), new, false),
        (Some(ban(60)), rejection(Some(ban(58))), false),
        (None, rejection(Some(ban(60))), false),
    ] {
        let meter = Meter::default();
        meter.apply_bans(before, None);
        let corrected = meter.adopt(limits(1, 9), &decided).unstored_ban;
        let expected = is_corrected.then_some(BanChange {
            ban: ban(60),
            replaces: Some(ban(500).started_at),
        });
        assert_eq!(corrected, expected, "{before:?} {decided:?}");
        assert_eq!(meter.node_state().ban, decided.ban);
    }
}

#[test]
fn an_unban_ends_only_what_a_shared_decision_did_not_know_of_and_what_began_before_it() {
    let at = |secs| Some(Timestamp::from_secs(secs));
    for (unbanned_at, unban_known, is_kept) in [
        (at(50), None, false),
        (at(51), at(20), false),
        (at(49), None, true),
        // From a clock that ran ahead: the decision was made after it.
        (at(900), at(900), true),
    ] {
        let meter = Meter::default();
        meter.apply_bans(None, unbanned_at);
        let decided = SharedDecision {
            unban_known,
            ..rejection(Some(ban(50)))
        };
        meter.adopt(limits(1, 9), &decided);
        let expected = is_kept.then_some(ban(50));
        assert_eq!(meter.node_state().ban, expected, "{unbanned_at:?}");
    }
}

#[test]
fn an_unban_that_is_read_again_does_not_end_the_ban_that_follows() {
    let meter = Meter::default();
    let policy = bans_after(1);
    let ahead = Some(Timestamp::from_secs(900));
    let decide = || {
        meter.apply_bans(None, ahead);
        let now = Timestamp::from_secs(60);
        meter.decide(limits(1, 9), &policy, now).admission
    };
    decide();
    assert!(matches!(decide(), Admission::RateLimited { .. }));
    assert!(matches!(decide(), Admission::Banned { new: Some(_), .. }));
    assert!(matches!(decide(), Admission::Banned { new: None, .. }));
}

#[test]
fn a_stored_ban_replaces_an_earlier_one_or_the_one_that_was_stored_before() {
    for (own, stored, expected) in [
        // A later one of another node, and one that another node has corrected.
        (ban(50), ban(60), ban(60)),
        (ban(500), ban(60), ban(60)),
    ] {
        let meter = Meter::default();
        meter.apply_bans(Some(own), None);
        meter.apply_bans(Some(stored), None);
        assert_eq!(meter.node_state().ban, Some(expected));
    }
    // One that is not stored yet stays, and one that was corrected here is not changed back.
    let meter = Meter::default();
    meter.adopt(limits(1, 9), &rejection(Some(ban(50))));
    meter.apply_bans(Some(ban(40)), None);
    assert_eq!(meter.node_state().ban, Some(ban(50)));
    meter.apply_bans(Some(ban(60)), None);
    assert_eq!(meter.node_state().ban, Some(ban(60)));
    let meter = Meter::default();
    meter.apply_bans(Some(ban(500)), None);
    meter.decide(
        limits(1, 9),
        &BanPolicy::default(),
        Timestamp::from_secs(60),
    );
    meter.apply_bans(Some(ban(500)), None);
    assert_eq!(meter.node_state().ban, Some(ban(60)));
}
