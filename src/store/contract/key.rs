//! A key as a store keeps it, and how it changes.

use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId, KeyIdentity};
use crate::limit::Ban;
use crate::plan::Plan;

#[derive(Clone, Debug)]
pub struct NewKey {
    /// The name that the operator gave it.
    pub name: String,
    pub plan: Plan,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

/// A key as it is stored, without its secret.
#[derive(Clone, Debug)]
pub struct KeyRecord {
    pub id: KeyId,
    /// The name that the operator gave it.
    pub name: String,
    pub plan: Plan,
    /// The first characters of its secret.
    pub prefix: String,
    pub hash: KeyHash,
    /// The hash of the old secret, and when it stops working.
    pub old: Option<(KeyHash, Timestamp)>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to the second or so.
    pub last_used_at: Option<Timestamp>,
    /// Its last ban, unless it was unbanned since.
    pub ban: Option<Ban>,
    /// When an operator last unbanned it.
    pub unbanned_at: Option<Timestamp>,
    /// The revision of its last change that a server must apply.
    pub revision: i64,
}

impl KeyRecord {
    /// Returns what distinguishes it from keys with the same ID that the database has lost.
    pub fn identity(&self) -> KeyIdentity {
        KeyIdentity {
            id: self.id,
            created_at: self.created_at,
        }
    }

    /// Returns the end of its ban, while it is banned.
    pub(crate) fn banned_until(&self, now: Timestamp) -> Option<Timestamp> {
        let ban = self.ban.filter(|ban| ban.is_active(now));
        ban.map(|ban| ban.until)
    }

    /// Returns when it was last used. A node whose clock was ahead may have stored a time that is yet to come.
    pub(crate) fn last_used(&self, now: Timestamp) -> Option<Timestamp> {
        self.last_used_at.map(|at| at.min(now))
    }

    /// Returns when its old secret stops working, while it works: at the end of the grace period of its last rotation, or when the
    /// key expires.
    pub(crate) fn old_secret_until(&self, now: Timestamp) -> Option<Timestamp> {
        let old = self.old.filter(|_| self.revoked_at.is_none());
        old.map(|(_, until)| self.expires_at.map_or(until, |end| end.min(until)))
            .filter(|until| now < *until)
    }
}

#[derive(Clone, Debug)]
pub enum KeyChange {
    Plan(Plan),
    /// A new secret; the current one works until `old_until`.
    Secret {
        hash: KeyHash,
        prefix: String,
        /// When the current secret stops working.
        old_until: Timestamp,
    },
    /// Revoked at this time, unless it is already.
    Revoke(Timestamp),
    /// Unbanned at this time, which resets the duration of its next ban.
    Unban(Timestamp),
}

#[derive(Clone, Debug)]
pub struct ChangedKey {
    /// As the decision saw it.
    pub before: KeyRecord,
    pub after: KeyRecord,
}

/// The result of changing a key: `None` if there is no such key, and an inner error if `decide` returned one.
pub type KeyChangeResult<E> = super::error::Result<Option<std::result::Result<ChangedKey, E>>>;
