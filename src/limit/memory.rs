//! One key's counters in this process. One short lock makes the decision whole: ban, minute and day are looked at
//! and counted together, so that no interleaving of requests admits one too many.

#[cfg(feature = "shuttle")]
use shuttle::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(feature = "shuttle"))]
use std::sync::{Mutex, MutexGuard};

use super::ban::{Ban, BanChange, BanPolicy};
use super::ruling::{Known, Ruling};
use super::window::{Rate, Windows};
use super::{Decision, Verdict};
use crate::clock::{Day, Timestamp};
use crate::plan::Limits;

/// A key's counters. It outlives every change of the key's terms. Those of other keys are on other cache lines: cores that
/// serve different keys do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Meter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    windows: Windows,
    /// Refusals in the present minute, towards a ban.
    refusals: u32,
    /// The last ban, running or over.
    ban: Option<Ban>,
    /// When an operator last pardoned the key.
    pardoned: Option<Timestamp>,
    /// When the ban began that the store has. Once taken over, it is no news again: the ban may have been moved since.
    stored: Option<Timestamp>,
    /// What the store has not been told yet, by day, the latest last.
    unread: Vec<DayUse>,
}

/// What a key did on a day, since the store was last told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayUse {
    /// The day.
    pub day: Day,
    /// Requests that counted.
    pub requests: u32,
    /// Requests answered 429.
    pub refused: u32,
    /// When the last of them came.
    pub last: Timestamp,
}

impl Meter {
    /// Decides about one request, and counts it.
    pub fn decide(&self, limits: Limits, bans: &BanPolicy, now: Timestamp) -> Decision {
        let state = &mut *self.lock();
        state.enter(now);
        let moved = state.move_ban(now);
        let first_unread = state.unread.is_empty();

        let verdict = if let Some(ban) = state.ban.filter(|ban| ban.holds(now)) {
            Verdict::Banned {
                until: served_again(ban, &state.windows, limits),
                new: None,
            }
        } else if state.windows.admit(limits) {
            Verdict::Admitted
        } else {
            state.refusals = state.refusals.saturating_add(1);
            if bans.exceeded(state.refusals) {
                // This answer names the ban already: a Retry-After to the end of the window would be a lie by now.
                let ban = bans.next(state.ban, now);
                state.ban = Some(ban);
                state.refusals = 0;
                Verdict::Banned {
                    until: served_again(ban, &state.windows, limits),
                    new: Some(ban),
                }
            } else {
                rate_limited(&state.windows, limits)
            }
        };

        state.note(verdict, state.windows.day.start().day(), now);
        Decision {
            verdict,
            rate: rate(&state.windows, limits, verdict),
            now,
            first_unread,
            moved,
        }
    }

    /// What this node knows, for a limiter that decides for all nodes.
    pub fn known(&self) -> Known {
        let state = self.lock();
        Known {
            windows: state.windows,
            ban: state.ban,
            pardoned: state.pardoned,
        }
    }

    /// Takes over what was decided for all nodes: should this one have to decide alone, it goes on from there.
    pub fn adopt(&self, limits: Limits, ruling: &Ruling) -> Decision {
        let state = &mut *self.lock();
        let first_unread = state.unread.is_empty();
        state.catch_up(ruling);
        let moved = state.adopt_ban(ruling);
        let verdict = match ruling.ban {
            _ if ruling.admitted => Verdict::Admitted,
            Some(ban) if ban.holds(ruling.now) => Verdict::Banned {
                until: served_again(ban, &ruling.windows, limits),
                new: ruling.is_new_ban.then_some(ban),
            },
            _ => rate_limited(&ruling.windows, limits),
        };
        // On the day of the ruling, whatever day this node's own clock had reached.
        state.note(verdict, ruling.windows.day.start().day(), ruling.now);
        Decision {
            verdict,
            rate: rate(&ruling.windows, limits, verdict),
            now: ruling.now,
            first_unread,
            moved,
        }
    }

    /// Takes over what the store remembers of the day's use. To be called once, before the first decision.
    pub fn remember(&self, day: Day, requests: u32) {
        let state = &mut *self.lock();
        state.enter(day.start());
        state.windows.day.add(requests);
    }

    /// Obeys what the store says of the key's bans: one that another wrote or moved, or an unban by an operator. The
    /// store keeps no ban that has been ended by its unban.
    pub fn obey(&self, stored: Option<Ban>, pardoned: Option<Timestamp>) {
        let state = &mut *self.lock();
        let began = |ban: Option<Ban>| ban.map(|ban| ban.began);
        // Once, however often it is read: one that is dated into the future must not end the bans that follow.
        if pardoned > state.pardoned {
            state.refusals = 0;
            state.ban = state.ban.filter(|ban| Some(ban.began) > pardoned);
        }
        state.pardoned = pardoned;
        let before = std::mem::replace(&mut state.stored, began(stored));
        let is_news = stored.is_some() && before != state.stored;
        if is_news && (state.stored > began(state.ban) || before == began(state.ban)) {
            state.ban = stored;
        }
    }

    /// Takes what the store has not been told yet.
    pub fn read_out(&self) -> Vec<DayUse> {
        std::mem::take(&mut self.lock().unread)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing inside can panic half-way; a poisoned lock still holds whole counters.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enter(&mut self, now: Timestamp) {
        if self.windows.minute.enter(now) {
            self.refusals = 0;
        }
        self.windows.day.enter(now);
    }

    /// Goes on to the windows of a ruling.
    fn catch_up(&mut self, ruling: &Ruling) {
        self.enter(ruling.now);
        let minute = self.windows.minute.number();
        self.windows.minute.catch_up(&ruling.windows.minute);
        self.windows.day.catch_up(&ruling.windows.day);
        if self.windows.minute.number() != minute {
            self.refusals = 0;
        }
    }

    /// Sets right a ban that a clock which ran ahead has dated into the future.
    fn move_ban(&mut self, now: Timestamp) -> Option<BanChange> {
        let ban = self.ban?;
        let moved = ban.moved_to(now)?;
        self.ban = Some(moved);
        Some(BanChange {
            ban: moved,
            replaces: Some(ban.began),
        })
    }

    /// Takes over the ban of a ruling. Returns it if the ruling has moved it from the future, where the store has it.
    fn adopt_ban(&mut self, ruling: &Ruling) -> Option<BanChange> {
        // An unban that this node heard of while the question was on its way is newer than the ruling.
        let is_overtaken = self.pardoned > ruling.asked_after;
        let is_ended = |ban: &Ban| is_overtaken && Some(ban.began) <= self.pardoned;
        let ban = ruling.ban.filter(|ban| !is_ended(ban));
        let before = std::mem::replace(&mut self.ban, ban);
        if before == ban {
            return None;
        }
        // Another ban, or none after an unban: it does not count what came before.
        self.refusals = 0;
        let (before, ban) = (before?, ban?);
        let is_moved = before.began > ruling.now && ban.holds(ruling.now) && !ruling.is_new_ban;
        is_moved.then_some(BanChange {
            ban,
            replaces: Some(before.began),
        })
    }

    /// Notes for the store what became of a request, and on which day.
    fn note(&mut self, verdict: Verdict, day: Day, now: Timestamp) {
        let today = self.today(day, now);
        match verdict {
            Verdict::Admitted => today.requests += 1,
            _ => today.refused += 1,
        }
    }

    fn today(&mut self, day: Day, now: Timestamp) -> &mut DayUse {
        if self.unread.last().is_none_or(|last| last.day != day) {
            self.unread.push(DayUse {
                day,
                requests: 0,
                refused: 0,
                last: now,
            });
        }
        let last = self.unread.len() - 1;
        let today = &mut self.unread[last];
        today.last = today.last.max(now);
        today
    }
}

/// The refusal of a used-up window.
fn rate_limited(windows: &Windows, limits: Limits) -> Verdict {
    Verdict::RateLimited {
        by: windows.exhausted(limits),
        until: windows.rate(limits).reset,
    }
}

/// When a banned key is served again: when the ban is over, and no window is used up any more.
fn served_again(ban: Ban, windows: &Windows, limits: Limits) -> Timestamp {
    let rate = windows.rate(limits);
    match rate.remaining {
        0 => ban.until.max(rate.reset),
        _ => ban.until,
    }
}

/// What headers say: a ban is a window with nothing left, beside the two others.
fn rate(windows: &Windows, limits: Limits, verdict: Verdict) -> Rate {
    let rate = windows.rate(limits);
    match verdict {
        Verdict::Banned { until, .. } => rate.tighter(Rate {
            limit: limits.per_minute(),
            remaining: 0,
            reset: until,
        }),
        _ => rate,
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    fn limits(minute: u32, day: u32) -> Limits {
        Limits::new(minute, day).unwrap()
    }

    #[test]
    fn sixteen_threads_on_one_key_admit_exactly_the_limit() {
        let meter = Meter::default();
        let admitted = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let off = BanPolicy {
                            after: 0,
                            ..BanPolicy::default()
                        };
                        let decision =
                            meter.decide(limits(10_000, 50_000), &off, Timestamp::from_secs(7));
                        if decision.verdict == Verdict::Admitted {
                            admitted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 10_000);
        assert_eq!(meter.read_out()[0].refused, 70_000);
    }

    #[test]
    fn a_pardon_ends_the_ban_and_forgets_the_refusals() {
        let meter = Meter::default();
        let policy = BanPolicy {
            after: 1,
            ..BanPolicy::default()
        };
        let now = Timestamp::from_secs(60);
        let decide = || meter.decide(limits(1, 9), &policy, now).verdict;
        decide();
        decide();
        assert!(matches!(decide(), Verdict::Banned { new: Some(_), .. }));
        meter.obey(None, Some(now));
        assert!(matches!(decide(), Verdict::RateLimited { .. }));
    }

    #[test]
    fn refusals_of_a_minute_that_a_ruling_has_ended_do_not_count_in_the_next() {
        let meter = Meter::default();
        let policy = BanPolicy {
            after: 10,
            ..BanPolicy::default()
        };
        let alone = |secs, times: usize| {
            let now = Timestamp::from_secs(secs);
            let decide = |_| meter.decide(limits(1, 99), &policy, now).verdict;
            (0..times).map(decide).collect::<Vec<_>>()
        };
        // Redis is away for 1 request and 8 refusals, decides the first of the next minute, and is away again.
        assert_eq!(alone(10, 9)[0], Verdict::Admitted);
        let ruling = Ruling {
            now: Timestamp::from_secs(61),
            admitted: true,
            is_new_ban: false,
            windows: Windows::at((1, 1), (0, 2)),
            ban: None,
            asked_after: None,
        };
        meter.adopt(limits(1, 99), &ruling);
        let is_refusal = |verdict: &Verdict| matches!(verdict, Verdict::RateLimited { .. });
        let next = alone(62, 3);
        assert!(next.iter().all(is_refusal), "{next:?}");
    }

    #[test]
    fn an_unban_that_overtakes_a_ruling_ends_the_ban_all_the_same() {
        let (meter, now) = (Meter::default(), Timestamp::from_secs(60));
        let ban = Ban {
            began: Timestamp::from_secs(50),
            until: Timestamp::from_secs(350),
        };
        let ruling = Ruling {
            now,
            admitted: false,
            is_new_ban: false,
            windows: Windows::at((1, 1), (0, 2)),
            ban: Some(ban),
            asked_after: None,
        };
        meter.adopt(limits(1, 99), &ruling);
        assert_eq!(meter.known().ban, Some(ban));
        meter.obey(None, Some(now));
        meter.adopt(limits(1, 99), &ruling);
        assert_eq!(meter.known().ban, None);
    }

    #[test]
    fn a_ban_that_the_store_has_not_seen_yet_is_kept() {
        let meter = Meter::default();
        let ban = Ban {
            began: Timestamp::from_secs(50),
            until: Timestamp::from_secs(350),
        };
        meter.obey(Some(ban), None);
        meter.obey(None, Some(Timestamp::from_secs(40)));
        let verdict = meter
            .decide(
                limits(1, 1),
                &BanPolicy::default(),
                Timestamp::from_secs(60),
            )
            .verdict;
        assert_eq!(
            verdict,
            Verdict::Banned {
                until: ban.until,
                new: None
            }
        );
    }

    #[test]
    fn reading_out_takes_all_that_came_since_the_last_time() {
        let meter = Meter::default();
        let count = |secs| {
            meter.decide(
                limits(9, 9),
                &BanPolicy::default(),
                Timestamp::from_secs(secs),
            )
        };
        assert!(count(10).first_unread);
        assert!(!count(20).first_unread);
        let read = || {
            let uses = meter.read_out();
            assert_eq!(uses.len(), 1);
            (uses[0].requests, uses[0].last)
        };
        assert_eq!(read(), (2, Timestamp::from_secs(20)));
        assert!(count(30).first_unread);
        assert_eq!(read(), (1, Timestamp::from_secs(30)));
        assert!(meter.read_out().is_empty());
    }
}
