//! The state of a key.

use crate::clock::Timestamp;
use crate::names::named;
use crate::store::KeyRecord;

named! {
    /// Whether a key can be used.
    pub enum KeyState {
        /// It can be used.
        Active = "active",
        Banned = "banned",
        Expired = "expired",
        Revoked = "revoked",
    }
}

impl KeyState {
    /// The state of a key at this time. `sql` is the same in SQL.
    pub fn of(key: &KeyRecord, now: Timestamp) -> Self {
        let is_past = |time: Option<Timestamp>| time.is_some_and(|time| time <= now);
        if key.revoked_at.is_some() {
            Self::Revoked
        } else if is_past(key.expires_at) {
            Self::Expired
        } else if key.banned_until(now).is_some() {
            Self::Banned
        } else {
            Self::Active
        }
    }

    /// The name of the state that a row has at the time `now`, a parameter of the statement.
    pub(crate) fn sql(now: &str) -> String {
        format!(
            "CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= {now} THEN 'expired' \
             WHEN banned_until > {now} THEN 'banned' ELSE 'active' END"
        )
    }
}
