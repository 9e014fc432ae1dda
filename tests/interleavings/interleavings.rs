//! The limiter's one lock under schedules that a machine rarely chooses: random ones, and ones that let threads
//! overtake each other at the worst moments.
#![expect(clippy::expect_used, reason = "a test that cannot continue has failed")]

use std::sync::Arc;

use limiter::clock::Timestamp;
use limiter::limit::{Admission, BanPolicy, DayUsage, Decision, Meter};
use limiter::plan::Limits;
use shuttle::sync::Mutex;
use shuttle::thread::{self, JoinHandle};

const NOW: Timestamp = Timestamp::from_secs(1_794_830_410);
const SCHEDULES: usize = 2_000;

/// Runs a scenario under many schedules.
fn under_many_schedules(scenario: impl Fn() + Copy + Send + Sync + 'static) {
    shuttle::check_random(scenario, SCHEDULES);
    for depth in 1..=3 {
        shuttle::check_pct(scenario, SCHEDULES / 3, depth);
    }
}

fn bans(max_rejections: u32) -> BanPolicy {
    BanPolicy {
        max_rejections,
        ..BanPolicy::default()
    }
}

/// A thread that sends this many requests under these limits, and returns the decisions.
fn spawn_requests(
    meter: &Arc<Meter>,
    times: usize,
    limits: (u32, u32),
    after: u32,
) -> JoinHandle<Vec<Decision>> {
    let meter = Arc::clone(meter);
    thread::spawn(move || {
        let limits = Limits::new(limits.0, limits.1).expect("limits");
        let decide = |_| meter.decide(limits, &bans(after), NOW);
        (0..times).map(decide).collect()
    })
}

fn decisions(threads: Vec<JoinHandle<Vec<Decision>>>) -> Vec<Decision> {
    let decisions = threads.into_iter().map(JoinHandle::join);
    decisions.flat_map(|all| all.expect("decisions")).collect()
}

fn count(decisions: &[Decision], matches: impl Fn(Admission) -> bool) -> usize {
    decisions
        .iter()
        .filter(|decision| matches(decision.admission))
        .count()
}

/// Requests and rejections in total.
fn sums(usage: &[DayUsage]) -> (u32, u32) {
    let sum =
        |(requests, rejected), on: &DayUsage| (requests + on.requests, rejected + on.rejected);
    usage.iter().fold((0, 0), sum)
}

fn exactly_the_limit(limits: (u32, u32)) {
    let meter = Arc::new(Meter::default());
    let threads = (0..4)
        .map(|_| spawn_requests(&meter, 3, limits, 0))
        .collect();
    let decisions = decisions(threads);
    let admitted = decisions
        .iter()
        .filter(|decision| decision.admission == Admission::Admitted);
    let mut left: Vec<_> = admitted.map(|decision| decision.quota.remaining).collect();
    left.sort_unstable();
    assert_eq!(left, (0..7).collect::<Vec<_>>(), "each number once");
    assert_eq!(sums(&meter.take_unstored()), (7, 5));
}

#[test]
fn threads_on_one_key_admit_exactly_the_limit_of_the_minute() {
    under_many_schedules(|| exactly_the_limit((7, 100)));
}

#[test]
fn threads_on_one_key_admit_exactly_the_limit_of_the_day() {
    under_many_schedules(|| exactly_the_limit((100, 7)));
}

#[test]
fn a_ban_begins_exactly_once() {
    under_many_schedules(|| {
        let meter = Arc::new(Meter::default());
        let threads = (0..3)
            .map(|_| spawn_requests(&meter, 3, (2, 100), 3))
            .collect();
        let decisions = decisions(threads);
        let begun = |admission| matches!(admission, Admission::Banned { new: Some(_), .. });
        let banned = |admission| matches!(admission, Admission::Banned { .. });
        let limited = |admission| matches!(admission, Admission::RateLimited { .. });
        assert_eq!(
            count(&decisions, |admission| admission == Admission::Admitted),
            2
        );
        assert_eq!(count(&decisions, limited), 3);
        assert_eq!(count(&decisions, banned), 4);
        assert_eq!(count(&decisions, begun), 1);
    });
}

#[test]
fn taking_usage_while_others_count_loses_nothing_and_doubles_nothing() {
    under_many_schedules(|| {
        let meter = Arc::new(Meter::default());
        let threads = (0..3)
            .map(|_| spawn_requests(&meter, 3, (4, 100), 0))
            .collect();
        let reader = {
            let meter = Arc::clone(&meter);
            thread::spawn(move || {
                let (first, second) = (sums(&meter.take_unstored()), sums(&meter.take_unstored()));
                (first.0 + second.0, first.1 + second.1)
            })
        };
        decisions(threads);
        let stored = reader.join().expect("sums");
        let rest = sums(&meter.take_unstored());
        assert_eq!((stored.0 + rest.0, stored.1 + rest.1), (4, 5));
        assert!(meter.take_unstored().is_empty());
    });
}

#[test]
fn the_first_use_after_a_flush_is_reported_and_no_use_is_lost() {
    under_many_schedules(|| {
        let (meter, reported) = (Arc::new(Meter::default()), Arc::new(Mutex::new(false)));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (meter, reported) = (Arc::clone(&meter), Arc::clone(&reported));
                thread::spawn(move || {
                    let limits = Limits::new(9, 9).expect("limits");
                    for _ in 0..2 {
                        if meter.decide(limits, &bans(0), NOW).first_unstored {
                            *reported.lock().expect("a lock") = true;
                        }
                    }
                })
            })
            .collect();
        let flush = || {
            let was_reported = std::mem::take(&mut *reported.lock().expect("a lock"));
            if was_reported {
                sums(&meter.take_unstored()).0
            } else {
                0
            }
        };
        let mut stored = flush() + flush();
        for thread in threads {
            thread.join().expect("a thread");
        }
        stored += flush();
        assert_eq!(stored, 6);
    });
}

#[test]
fn an_unban_among_requests_admits_no_more_than_the_limit() {
    under_many_schedules(|| {
        let meter = Arc::new(Meter::default());
        let threads = (0..3)
            .map(|_| spawn_requests(&meter, 3, (2, 100), 1))
            .collect();
        meter.apply_bans(None, Some(NOW));
        let decisions = decisions(threads);
        assert_eq!(
            count(&decisions, |admission| admission == Admission::Admitted),
            2
        );
        let begun = |admission| matches!(admission, Admission::Banned { new: Some(_), .. });
        assert!((1..=2).contains(&count(&decisions, begun)));
        assert_eq!(sums(&meter.take_unstored()), (2, 7));
    });
}
