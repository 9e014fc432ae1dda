//! Every key in memory, by the hash of its secret. Filled at startup, and updated with each change.
//! A request that looks a key up takes no lock and writes nothing that another core reads.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard};

use crate::clock::{Day, Timestamp};
use crate::key::{KeyHash, KeyId, KeyIdentity};
use crate::limit::{Meter, MeterIndex, Meters};
use crate::mutex::lock;
use crate::plan::Limits;
use crate::store::KeyRecord;

/// What one secret of a key grants: the key and its limits, until when, and the meter that all secrets of the key share.
#[derive(Clone, Copy, Debug)]
pub struct SecretGrant {
    pub identity: KeyIdentity,
    pub limits: Limits,
    meter: MeterIndex,
    /// When this secret stops being valid: by expiry, revocation, or the end of a grace period.
    valid_until: Timestamp,
}

/// `valid_until` of a secret that does not expire.
const NO_END: Timestamp = Timestamp::from_millis(i64::MAX);

/// `valid_until` of a revoked secret: it is not valid at any time, whatever the clock says.
const REVOKED: Timestamp = Timestamp::from_millis(i64::MIN);

impl SecretGrant {
    /// Whether it is neither expired nor revoked.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        now < self.valid_until
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.valid_until == REVOKED
    }
}

/// The number of shards of the keys by ID. A change locks one of them for less than a microsecond, and its map is so small that
/// resizing it is fast: with a million keys one map would be copied for a tenth of a second, under its lock.
const SHARDS: usize = 256;

/// All keys. Requests to the API look in `secrets`; changes and the admin API look in `by_id`.
pub struct Directory {
    secrets: papaya::HashMap<KeyHash, SecretGrant, BuildHasherDefault<IdentityHasher>>,
    by_id: Box<[Mutex<ById>; SHARDS]>,
    meters: Meters,
}

type ById = HashMap<KeyId, KeyEntry>;

/// Uses the first eight bytes as the hash, for map keys that are hashes already. The SHA-256 of a secret is one that no client can
/// choose, and only issued keys are in the map.
#[derive(Debug, Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(eight) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*eight);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The revision of a key that may be lost: less than every revision in a store.
const LOST: i64 = -1;

/// The state of a key that is needed to apply a change.
struct KeyEntry {
    revision: i64,
    created_at: Timestamp,
    meter: MeterIndex,
    hash: KeyHash,
    /// Boxed, because few keys have one.
    old_hash: Option<Box<KeyHash>>,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            secrets: papaya::HashMap::default(),
            by_id: Box::new(std::array::from_fn(|_| Mutex::default())),
            meters: Meters::default(),
        }
    }
}

impl Directory {
    /// Returns the key with this hash, valid or not.
    pub fn find(&self, hash: &KeyHash) -> Option<SecretGrant> {
        self.secrets.pin().get(hash).copied()
    }

    /// Returns the meter of a key that was found here.
    pub fn meter(&self, key: &SecretGrant) -> &Meter {
        self.meters.get(key.meter)
    }

    /// Applies a record of the store, unless a newer one has been applied. A secret that is valid before and after is found at
    /// every moment between.
    pub fn apply(&self, record: &KeyRecord) {
        // Held to the end: of two records of the same key, the newer one wins.
        let mut keys = self.lock_shard(record.id);
        let before = keys.get(&record.id);
        if before.is_some_and(|entry| entry.revision > record.revision) {
            return;
        }
        let same = before.filter(|entry| entry.created_at == record.created_at);
        let meter = same.map_or_else(|| self.meters.add(), |entry| entry.meter);
        self.meters
            .get(meter)
            .apply_bans(record.ban, record.unbanned_at);
        // A revocation is final, even for a clock that is behind the one that dated it.
        let key_ends = match record.revoked_at {
            Some(_) => Some(REVOKED),
            None => record.expires_at,
        };
        let old = record
            .old
            .map(|(hash, until)| (hash, Some(key_ends.map_or(until, |end| end.min(until)))));
        let secrets = self.secrets.pin();
        for (hash, ends) in std::iter::once((record.hash, key_ends)).chain(old) {
            let key = SecretGrant {
                identity: record.identity(),
                limits: record.plan.limits(),
                meter,
                valid_until: ends.unwrap_or(NO_END),
            };
            secrets.insert(hash, key);
        }
        let entry = KeyEntry {
            revision: record.revision,
            created_at: record.created_at,
            meter,
            hash: record.hash,
            old_hash: old.map(|(hash, _)| Box::new(hash)),
        };
        let previous = keys.insert(record.id, entry);
        let ended = previous
            .iter()
            .flat_map(KeyEntry::hashes)
            .filter(|hash| *hash != record.hash && Some(*hash) != old.map(|(hash, _)| hash));
        for hash in ended {
            secrets.remove(&hash);
        }
    }

    /// Prepares for a database that has lost changes: the next record of each key is applied, whatever its revision.
    pub fn expect_older(&self) {
        for shard in &*self.by_id {
            lock(shard)
                .values_mut()
                .for_each(|entry| entry.revision = LOST);
        }
    }

    /// Removes the keys of which no record has been applied since [`Self::expect_older`].
    pub fn remove_lost(&self) {
        let secrets = self.secrets.pin();
        for shard in &*self.by_id {
            lock(shard).retain(|_, entry| {
                let is_lost = entry.revision == LOST;
                if is_lost {
                    for hash in entry.hashes() {
                        secrets.remove(&hash);
                    }
                }
                !is_lost
            });
        }
    }

    /// Adds the usage of a day that is stored already. To be called once for a day, in order, before the first request.
    pub fn restore_usage(&self, day: Day, usage: &[(KeyId, u32)]) {
        for (id, requests) in usage {
            if let Some(entry) = self.lock_shard(*id).get(id) {
                self.meters.get(entry.meter).restore_usage(day, *requests);
            }
        }
    }

    /// Whether this server knows the key.
    pub fn contains(&self, id: KeyId) -> bool {
        self.lock_shard(id).contains_key(&id)
    }

    /// The requests of a key in the current minute and day, as counted by this server or last reported by Redis.
    pub fn used(&self, id: KeyId, now: Timestamp) -> Option<(u32, u32)> {
        let meter = self.lock_shard(id).get(&id)?.meter;
        let mut windows = self.meters.get(meter).node_state().windows;
        windows.minute.enter(now);
        windows.day.enter(now);
        Some((windows.minute.used, windows.day.used))
    }

    fn lock_shard(&self, id: KeyId) -> MutexGuard<'_, ById> {
        let [last, ..] = id.0.to_le_bytes();
        let shard = &self.by_id[usize::from(last)];
        lock(shard)
    }
}

impl KeyEntry {
    fn hashes(&self) -> impl Iterator<Item = KeyHash> {
        std::iter::once(self.hash).chain(self.old_hash.as_deref().copied())
    }
}

#[cfg(test)]
#[path = "directory/tests.rs"]
pub(super) mod tests;
