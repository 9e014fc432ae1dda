//! A key as a store keeps it, and its use by day.

use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId};
use crate::limit::Ban;
use crate::plan::Plan;

/// A key that is to be issued.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What the operator calls it.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
    /// When it is issued.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// All that is known of a key. The secret is not.
#[derive(Clone, Debug)]
pub struct KeyRecord {
    /// Its number.
    pub id: KeyId,
    /// What the operator calls it.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
    /// The first characters of its secret.
    pub prefix: String,
    /// The hash of its secret.
    pub hash: KeyHash,
    /// The hash of the secret before, and until when that still works.
    pub old: Option<(KeyHash, Timestamp)>,
    /// When it was issued.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When an operator ended it.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to the second or so.
    pub last_used_at: Option<Timestamp>,
    /// Its last ban, unless it was pardoned.
    pub ban: Option<Ban>,
    /// When an operator last pardoned it.
    pub unbanned_at: Option<Timestamp>,
    /// The number of the change that made it so.
    pub revision: i64,
}

/// What is to become of a key.
#[derive(Clone, Debug)]
pub enum KeyChange {
    /// Another plan.
    Plan(Plan),
    /// A new secret; the current one works until `old_until`.
    Secret {
        /// The hash of the new secret.
        hash: KeyHash,
        /// Its first characters.
        prefix: String,
        /// When the current secret ends.
        old_until: Timestamp,
    },
    /// Revoked at this time, unless it is already.
    Revoke(Timestamp),
    /// Unbanned at this time, and its bans forgotten.
    Unban(Timestamp),
}

/// A key before and after a change.
#[derive(Clone, Debug)]
pub struct Changed {
    /// As the decision saw it.
    pub before: KeyRecord,
    /// As it is now.
    pub after: KeyRecord,
}

/// What a change of a key returns: `None` if there is no such key, and what `decide` refused it with.
pub type KeyChanged<E> = super::Result<Option<std::result::Result<Changed, E>>>;

/// What a key did on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The day, as in `2026-11-15`.
    pub day: String,
    /// The key.
    pub key: KeyId,
    /// Its name.
    pub name: String,
    /// Requests that counted.
    pub requests: i64,
    /// Requests answered 429.
    pub refused: i64,
}
