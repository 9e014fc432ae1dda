//! Management of keys: what may be done to a key, for whoever does it, the command line or the dashboard. A rule that
//! depends on the state of a key is checked in the transaction that changes it; see [`Store::change_key`].

mod name;

pub use name::{InvalidKeyName, KeyName};

use std::time::Duration;

use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId, NoRandomness, Secret};
use crate::limit::Ban;
use crate::plan::Plan;
use crate::store::{Changed, KeyChange, KeyRecord, NewKey, Store, StoreError};

/// Why a key was not issued or changed. Nothing has happened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error("cannot change the keys: {0}")]
    Store(#[from] StoreError),
    /// There is no secret to give.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// A rule that forbids a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such key.
    #[error("there is no key {0}: see keys list")]
    Unknown(KeyId),
    /// A revoked key stays as it is.
    #[error("key {0} is revoked: create a new one")]
    Revoked(KeyId),
    /// A new secret for an expired key would not work.
    #[error("key {0} has expired: create a new one")]
    Expired(KeyId),
    /// The secret that would be replaced may be in use already, and the one before it would end at once.
    #[error("key {} was rotated before, and its old secret works until {}", .0.id, .0.until)]
    GraceRunning(Grace),
}

/// The grace of a rotation: the time in which two secrets of a key work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grace {
    /// The key.
    pub id: KeyId,
    /// Its name.
    pub name: String,
    /// When the old secret ends.
    pub until: Timestamp,
    /// The hash of the current secret.
    current: KeyHash,
}

/// Whether a rotation may replace the current secret while the one before it still works.
#[derive(Clone, Debug)]
pub enum Confirmed {
    /// Nobody was asked.
    No,
    /// This one may be; not another one that somebody has made meanwhile.
    Grace(Grace),
    /// Any.
    Yes,
}

/// A key with its secret, the one time that is known.
#[derive(Debug)]
pub struct Issued {
    /// The key.
    pub record: KeyRecord,
    /// Its new secret.
    pub secret: Secret,
}

/// Issues a key. `expires` is how long it lasts.
pub async fn create(
    store: &Store,
    name: KeyName,
    plan: Plan,
    expires: Option<Duration>,
    now: Timestamp,
) -> Result<Issued, Error> {
    let secret = Secret::generate()?;
    let key = NewKey {
        name: name.into(),
        plan,
        created_at: now,
        expires_at: expires.map(|span| now.after(span)),
    };
    let record = store.add_key(key, &secret).await?;
    Ok(Issued { record, secret })
}

/// Gives a key another plan.
pub async fn set_plan(store: &Store, id: KeyId, plan: Plan) -> Result<KeyRecord, Error> {
    let changed = change(store, id, move |_| Ok(KeyChange::Plan(plan))).await?;
    Ok(changed.after)
}

/// Gives a key a new secret; the current one works until the grace ends.
pub async fn rotate(
    store: &Store,
    id: KeyId,
    grace: Duration,
    confirmed: Confirmed,
    now: Timestamp,
) -> Result<Issued, Error> {
    let secret = Secret::generate()?;
    let (hash, prefix) = (secret.hash(), secret.prefix().to_owned());
    let decide = move |key: &KeyRecord| {
        may_rotate(key, &confirmed, now)?;
        Ok(KeyChange::Secret {
            hash,
            prefix: prefix.clone(),
            old_until: now.after(grace),
        })
    };
    let record = change(store, id, decide).await?.after;
    Ok(Issued { record, secret })
}

/// Who may rotate what.
fn may_rotate(key: &KeyRecord, confirmed: &Confirmed, now: Timestamp) -> Result<(), Refusal> {
    if key.revoked_at.is_some() {
        return Err(Refusal::Revoked(key.id));
    }
    if key.expires_at.is_some_and(|end| end <= now) {
        return Err(Refusal::Expired(key.id));
    }
    let Some((_, until)) = key.old.filter(|(_, until)| now < *until) else {
        return Ok(());
    };
    let may_replace = match confirmed {
        Confirmed::No => false,
        Confirmed::Grace(seen) => seen.current == key.hash,
        Confirmed::Yes => true,
    };
    if may_replace {
        return Ok(());
    }
    Err(Refusal::GraceRunning(Grace {
        id: key.id,
        name: key.name.clone(),
        until,
        current: key.hash,
    }))
}

/// Revokes a key permanently. A second time changes nothing.
pub async fn revoke(store: &Store, id: KeyId, now: Timestamp) -> Result<KeyRecord, Error> {
    let changed = change(store, id, move |_| Ok(KeyChange::Revoke(now))).await?;
    Ok(changed.after)
}

/// Ends a key's ban and forgets that it had any. Returns the ban that this ended, if one held.
pub async fn unban(
    store: &Store,
    id: KeyId,
    now: Timestamp,
) -> Result<(KeyRecord, Option<Ban>), Error> {
    let Changed { before, after } = change(store, id, move |_| Ok(KeyChange::Unban(now))).await?;
    Ok((after, before.ban.filter(|ban| ban.holds(now))))
}

async fn change(
    store: &Store,
    id: KeyId,
    decide: impl Fn(&KeyRecord) -> Result<KeyChange, Refusal> + Send + 'static,
) -> Result<Changed, Error> {
    let changed = store.change_key(id, decide).await?;
    Ok(changed.ok_or(Refusal::Unknown(id))??)
}
