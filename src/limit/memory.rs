//! The counters of one key in this process. One short lock makes a decision atomic: ban, minute and day are read and counted
//! together, so that no interleaving of requests admits one too many. `decide.lua` has the same rules for Redis; the model test compares
//! them.

use std::sync::PoisonError;
use std::time::Duration;

use super::ban::{Ban, BanChange, BanPolicy};
use super::decision::{Admission, Decision, NodeState, SharedDecision};
use super::sync::{Mutex, MutexGuard};
use super::usage::{self, DayUsage};
use super::window::Windows;
use crate::clock::{Day, Timestamp};
use crate::plan::Limits;

/// How long it takes at most, without an outage, until every node has read a new ban of another node from the store.
const BAN_STORED_WITHIN: Duration = Duration::from_secs(5);

/// The counters of a key, kept when the plan of the key changes. Those of other keys are on other cache lines: cores that
/// serve different keys do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Meter(Mutex<KeyCounters>);

#[derive(Debug, Default)]
struct KeyCounters {
    windows: Windows,
    /// Rejected requests in the current minute, towards a ban.
    rejections: u32,
    /// The last ban, active or expired.
    ban: Option<Ban>,
    /// The last unban by an operator.
    unbanned_at: Option<Timestamp>,
    /// The beginning of the ban in the store. It is applied once: the ban may have been corrected since.
    stored_ban_at: Option<Timestamp>,
    /// Whether a decision on this node has returned the ban, so that it is stored.
    is_ban_returned: bool,
    unstored_usage: Vec<DayUsage>,
}

impl Meter {
    /// Decides about one request, and counts it.
    pub fn decide(&self, limits: Limits, bans: &BanPolicy, now: Timestamp) -> Decision {
        let state = &mut *self.lock();
        state.enter(now);
        let unstored_ban = state.correct_ban(now);
        let first_unstored = state.unstored_usage.is_empty();

        let admission = if let Some(ban) = state.ban.filter(|ban| ban.is_active(now)) {
            Admission::banned(ban, false, &state.windows, limits)
        } else if state.windows.admit(limits) {
            Admission::Admitted
        } else {
            state.rejections = state.rejections.saturating_add(1);
            if bans.exceeded(state.rejections) {
                // This response names the ban already: a Retry-After to the end of the window would be wrong.
                let ban = bans.next(state.ban, now);
                state.ban = Some(ban);
                state.is_ban_returned = true;
                state.rejections = 0;
                Admission::banned(ban, true, &state.windows, limits)
            } else {
                Admission::rate_limited(&state.windows, limits)
            }
        };

        let day = state.windows.day.start().day();
        usage::count(&mut state.unstored_usage, admission, day, now);
        Decision {
            admission,
            quota: admission.quota(&state.windows, limits),
            now,
            first_unstored,
            unstored_ban,
        }
    }

    /// Returns the state of the key on this node, for a limiter that decides for all nodes.
    pub fn node_state(&self) -> NodeState {
        let state = self.lock();
        NodeState {
            windows: state.windows,
            ban: state.ban,
            unbanned_at: state.unbanned_at,
        }
    }

    /// Adopts a decision for all nodes: if this one has to decide alone, it continues from there.
    pub fn adopt(&self, limits: Limits, decided: &SharedDecision) -> Decision {
        let state = &mut *self.lock();
        let first_unstored = state.unstored_usage.is_empty();
        state.catch_up(decided);
        let unstored_ban = state
            .adopt_ban(decided)
            .or_else(|| state.find_unstored_ban(decided.now));
        let admission = match decided.ban {
            _ if decided.admitted => Admission::Admitted,
            Some(ban) if ban.is_active(decided.now) => {
                state.is_ban_returned |= decided.is_new_ban;
                Admission::banned(ban, decided.is_new_ban, &decided.windows, limits)
            }
            _ => Admission::rate_limited(&decided.windows, limits),
        };
        // On the day of the decision, whatever day this node's own clock has reached.
        let day = decided.windows.day.start().day();
        usage::count(&mut state.unstored_usage, admission, day, decided.now);
        Decision {
            admission,
            quota: admission.quota(&decided.windows, limits),
            now: decided.now,
            first_unstored,
            unstored_ban,
        }
    }

    /// Adds the usage of a day that is stored already. To be called once for a day, in order, before the first decision.
    pub fn restore_usage(&self, day: Day, requests: u32) {
        let state = &mut *self.lock();
        state.enter(day.start());
        state.windows.day.count(requests);
    }

    /// Applies the ban and the unban of the key in the store: a ban that another node wrote or corrected, or an unban by an
    /// operator. The store keeps no ban that its unban has ended.
    pub fn apply_bans(&self, stored: Option<Ban>, unbanned_at: Option<Timestamp>) {
        let state = &mut *self.lock();
        let start_of = |ban: Option<Ban>| ban.map(|ban| ban.started_at);
        // An unban is applied once, however often it is read: one dated in the future must not end the bans that follow.
        if unbanned_at > state.unbanned_at {
            state.rejections = 0;
            state.ban = state.ban.filter(|ban| Some(ban.started_at) > unbanned_at);
        }
        state.unbanned_at = unbanned_at;
        let before = std::mem::replace(&mut state.stored_ban_at, start_of(stored));
        let is_new = stored.is_some() && before != state.stored_ban_at;
        if is_new && (start_of(state.ban) < state.stored_ban_at || before == start_of(state.ban)) {
            state.ban = stored;
        }
    }

    pub fn take_unstored(&self) -> Vec<DayUsage> {
        std::mem::take(&mut self.lock().unstored_usage)
    }

    fn lock(&self) -> MutexGuard<'_, KeyCounters> {
        // Nothing inside can panic half-way, so the counters behind a poisoned lock are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyCounters {
    fn enter(&mut self, now: Timestamp) {
        if self.windows.minute.enter(now) {
            self.rejections = 0;
        }
        self.windows.day.enter(now);
    }

    /// Advances to the windows of a shared decision.
    fn catch_up(&mut self, decided: &SharedDecision) {
        self.enter(decided.now);
        let minute = self.windows.minute.number;
        self.windows.minute.catch_up(&decided.windows.minute);
        self.windows.day.catch_up(&decided.windows.day);
        if self.windows.minute.number != minute {
            self.rejections = 0;
        }
    }

    /// Corrects a ban whose start is in the future because a clock ran ahead.
    fn correct_ban(&mut self, now: Timestamp) -> Option<BanChange> {
        let ban = self.ban?;
        let corrected = ban.corrected(now)?;
        self.ban = Some(corrected);
        self.is_ban_returned = true;
        Some(BanChange {
            ban: corrected,
            replaces: Some(ban.started_at),
        })
    }

    /// Returns an active ban that no node seems to have stored, because Redis's reply with the new ban was lost. Or the store has an
    /// outage; then the ban is stored more than once, which changes nothing.
    fn find_unstored_ban(&mut self, now: Timestamp) -> Option<BanChange> {
        let ban = self.ban.filter(|ban| {
            ban.is_active(now)
                && ban.started_at.plus(BAN_STORED_WITHIN) <= now
                && self.stored_ban_at != Some(ban.started_at)
        })?;
        let was_returned = std::mem::replace(&mut self.is_ban_returned, true);
        (!was_returned).then(|| ban.into())
    }

    /// Adopts the ban of a shared decision. Returns it if the decision has corrected it: in the store it still starts in the
    /// future.
    fn adopt_ban(&mut self, decided: &SharedDecision) -> Option<BanChange> {
        // An unban that this node has read since it sent the request is newer than the decision.
        let is_overtaken = self.unbanned_at > decided.unban_known;
        let is_ended = |ban: &Ban| is_overtaken && Some(ban.started_at) <= self.unbanned_at;
        let ban = decided.ban.filter(|ban| !is_ended(ban));
        let before = std::mem::replace(&mut self.ban, ban);
        if before == ban {
            return None;
        }
        // Another ban, or none after an unban: earlier requests do not count towards it.
        self.rejections = 0;
        self.is_ban_returned = false;
        let (before, ban) = (before?, ban?);
        let is_corrected =
            before.started_at > decided.now && ban.is_active(decided.now) && !decided.is_new_ban;
        self.is_ban_returned = is_corrected;
        is_corrected.then_some(BanChange {
            ban,
            replaces: Some(before.started_at),
        })
    }
}

#[cfg(test)]
#[path = "memory/tests.rs"]
mod tests;
