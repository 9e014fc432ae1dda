//! The management of keys. Rules that depend on the state of a key are checked in the transaction that changes the key; see
//! [`Store::change_key`].

mod name;
pub(crate) mod report;

pub(crate) use name::KeyName;

use std::time::Duration;

use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId, Secret};
use crate::limit::Ban;
use crate::plan::Plan;
use crate::store::{ChangedKey, KeyChange, KeyRecord, KeyState, NewKey, Store, StoreError};

/// How long the old secret of a rotated key works by default.
pub(crate) const DEFAULT_GRACE: &str = "24h";

/// Why a key was not returned, issued or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Rejected(#[from] KeyRejection),
    #[error("cannot access the keys")]
    Store(#[from] StoreError),
    #[error("the operating system provided no random numbers: {0}")]
    NoRandomness(getrandom::Error),
}

/// A rule that forbids a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRejection {
    #[error("unknown key {0}")]
    Unknown(KeyId),
    /// A new secret for a revoked key would not work.
    #[error("key {0} is revoked: create a new one")]
    Revoked(KeyId),
    /// A new secret for an expired key would not work.
    #[error("key {0} has expired: create a new one")]
    Expired(KeyId),
    /// The current secret may be in use already, and the previous one would stop working at once.
    #[error("key {} was rotated recently, and its old secret works until {}", .0.id, .0.until)]
    InGracePeriod(GracePeriod),
    /// After this rotation was confirmed, another one replaced the secret, without a grace period.
    #[error("key {0} was rotated in the meantime, and its secret is now a different one")]
    RotatedMeanwhile(KeyId),
}

/// The grace period of a rotation, in which both secrets of a key work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GracePeriod {
    pub id: KeyId,
    pub name: String,
    /// When the old secret stops working.
    pub until: Timestamp,
    /// The hash of the current secret.
    current: KeyHash,
}

/// Whether a rotation during the grace period of another is confirmed.
#[derive(Clone, Debug)]
pub enum Confirmation {
    None,
    /// Confirmed for this grace period, and not for that of a rotation made meanwhile.
    ForGracePeriod(GracePeriod),
    /// Confirmed only while the current secret has this prefix.
    ForPrefix(String),
    /// Confirmed for any.
    Any,
}

/// A key with its new secret, which is known only now.
#[derive(Debug)]
pub struct Issued {
    pub record: KeyRecord,
    pub secret: Secret,
}

pub(crate) async fn get(store: &Store, id: KeyId) -> Result<KeyRecord, Error> {
    Ok(store.key(id).await?.ok_or(KeyRejection::Unknown(id))?)
}

/// Issues a key, which expires after this time, if any.
pub(crate) async fn create(
    store: &Store,
    name: KeyName,
    plan: Plan,
    expires: Option<Duration>,
    now: Timestamp,
) -> Result<Issued, Error> {
    let secret = Secret::generate().map_err(Error::NoRandomness)?;
    let key = NewKey {
        name: name.0,
        plan,
        created_at: now,
        expires_at: expires.map(|span| now.plus(span)),
    };
    let record = store.add_key(key, &secret).await?;
    Ok(Issued { record, secret })
}

/// Changes a key's plan.
pub async fn set_plan(store: &Store, id: KeyId, plan: Plan) -> Result<KeyRecord, Error> {
    let changed = change(store, id, move |_| Ok(KeyChange::Plan(plan))).await?;
    Ok(changed.after)
}

/// Gives a key a new secret. The current one works until the grace period ends.
pub async fn rotate(
    store: &Store,
    id: KeyId,
    grace: Duration,
    confirmation: Confirmation,
    now: Timestamp,
) -> Result<Issued, Error> {
    let secret = Secret::generate().map_err(Error::NoRandomness)?;
    let (hash, prefix) = (secret.hash(), secret.prefix().to_owned());
    let decide = move |key: &KeyRecord| {
        check_rotation(key, &confirmation, now)?;
        Ok(KeyChange::Secret {
            hash,
            prefix: prefix.clone(),
            // Without a grace period the end is final, even for a clock that is set back.
            old_until: match grace.is_zero() {
                true => Timestamp::default(),
                false => now.plus(grace),
            },
        })
    };
    let record = change(store, id, decide).await?.after;
    Ok(Issued { record, secret })
}

fn check_rotation(
    key: &KeyRecord,
    confirmation: &Confirmation,
    now: Timestamp,
) -> Result<(), KeyRejection> {
    match KeyState::of(key, now) {
        KeyState::Revoked => return Err(KeyRejection::Revoked(key.id)),
        KeyState::Expired => return Err(KeyRejection::Expired(key.id)),
        KeyState::Active | KeyState::Banned => {}
    }
    let is_current = match confirmation {
        Confirmation::None | Confirmation::Any => true,
        Confirmation::ForGracePeriod(seen) => seen.current == key.hash,
        Confirmation::ForPrefix(seen) => *seen == key.prefix,
    };
    match key.old_secret_until(now) {
        None if !is_current => Err(KeyRejection::RotatedMeanwhile(key.id)),
        Some(until) if !is_current || matches!(confirmation, Confirmation::None) => {
            Err(KeyRejection::InGracePeriod(GracePeriod {
                id: key.id,
                name: key.name.clone(),
                until,
                current: key.hash,
            }))
        }
        _ => Ok(()),
    }
}

/// Revokes a key permanently. Revoking it again changes nothing. Returns whether it was not revoked before.
pub async fn revoke(store: &Store, id: KeyId, now: Timestamp) -> Result<(KeyRecord, bool), Error> {
    let ChangedKey { before, after } =
        change(store, id, move |_| Ok(KeyChange::Revoke(now))).await?;
    Ok((after, before.revoked_at.is_none()))
}

/// Unbans a key and resets the duration of its next ban. Returns the ban that this ended, if any.
pub async fn unban(
    store: &Store,
    id: KeyId,
    now: Timestamp,
) -> Result<(KeyRecord, Option<Ban>), Error> {
    let ChangedKey { before, after } =
        change(store, id, move |_| Ok(KeyChange::Unban(now))).await?;
    Ok((after, before.ban.filter(|ban| ban.is_active(now))))
}

async fn change(
    store: &Store,
    id: KeyId,
    decide: impl Fn(&KeyRecord) -> Result<KeyChange, KeyRejection> + Send + 'static,
) -> Result<ChangedKey, Error> {
    let changed = store.change_key(id, decide).await?;
    Ok(changed.ok_or(KeyRejection::Unknown(id))??)
}
