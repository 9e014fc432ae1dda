//! The state of a key.

use crate::clock::Timestamp;
use crate::store::KeyRecord;

/// Whether a key can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyState {
    Active,
    Banned,
    Expired,
    Revoked,
}

impl KeyState {
    pub(crate) fn of(key: &KeyRecord, now: Timestamp) -> Self {
        let is_past = |time: Option<Timestamp>| time.is_some_and(|time| time <= now);
        if is_past(key.revoked_at) {
            Self::Revoked
        } else if is_past(key.expires_at) {
            Self::Expired
        } else if banned_until(key, now).is_some() {
            Self::Banned
        } else {
            Self::Active
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Banned => "banned",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

/// Returns the end of a key's ban, while it is banned.
pub(crate) fn banned_until(key: &KeyRecord, now: Timestamp) -> Option<Timestamp> {
    key.ban
        .filter(|ban| ban.is_active(now))
        .map(|ban| ban.until)
}

/// Returns the end of the grace period of a key's last rotation, while its old secret works.
pub(crate) fn old_secret_until(key: &KeyRecord, now: Timestamp) -> Option<Timestamp> {
    key.old.map(|(_, until)| until).filter(|until| now < *until)
}
