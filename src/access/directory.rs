//! Every key in memory, by the hash of its secret. Filled at start, and fed with what changes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use crate::clock::{Day, Timestamp};
use crate::key::{KeyHash, KeyId};
use crate::limit::Meter;
use crate::plan::Limits;
use crate::store::KeyRecord;

/// One secret of a key: its terms as they stand, and the meter that all secrets of the key share.
#[derive(Debug)]
pub struct Key {
    /// The key's number.
    pub id: KeyId,
    /// What it may use.
    pub limits: Limits,
    /// What it has used.
    pub meter: Arc<Meter>,
    /// When this secret ends: by expiry, revocation, or the end of a rotation's grace.
    ends: Option<Timestamp>,
}

impl Key {
    /// Whether a request at this moment may use it.
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.ends.is_none_or(|end| now < end)
    }
}

/// All keys.
#[derive(Debug, Default)]
pub struct Directory(RwLock<Keys>);

#[derive(Debug, Default)]
struct Keys {
    by_hash: HashMap<KeyHash, Arc<Key>, BuildHasherDefault<AlreadyHashed>>,
    by_id: HashMap<KeyId, Known>,
}

/// A key's name in the map is a SHA-256 already: any eight bytes of it are as good as a hash of all. No caller can choose
/// them, and only keys that were issued are in the map.
#[derive(Debug, Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(eight) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*eight);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Debug)]
struct Known {
    revision: i64,
    meter: Arc<Meter>,
    hashes: Vec<KeyHash>,
}

impl Directory {
    /// The key with this hash, in force or not.
    pub fn find(&self, hash: &KeyHash) -> Option<Arc<Key>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_hash
            .get(hash)
            .cloned()
    }

    /// Takes over a key as the store has it, unless what is known is newer.
    pub fn apply(&self, record: &KeyRecord) {
        self.write(|keys| keys.apply(record));
    }

    /// Takes over many keys.
    pub fn apply_all(&self, records: &[KeyRecord]) {
        self.write(|keys| records.iter().for_each(|record| keys.apply(record)));
    }

    /// Takes over what the store remembers of a day's use. To be called once, before the first request.
    pub fn remember(&self, day: Day, uses: &[(KeyId, u32)]) {
        self.write(|keys| {
            for (id, requests) in uses {
                if let Some(known) = keys.by_id.get(id) {
                    known.meter.remember(day, *requests);
                }
            }
        });
    }

    fn write(&self, change: impl FnOnce(&mut Keys)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Keys {
    fn apply(&mut self, record: &KeyRecord) {
        let meter = match self.by_id.get(&record.id) {
            Some(known) if known.revision > record.revision => return,
            Some(known) => {
                for hash in &known.hashes {
                    self.by_hash.remove(hash);
                }
                Arc::clone(&known.meter)
            }
            None => Arc::default(),
        };
        meter.obey(record.ban, record.unbanned_at);
        let key_ends = earliest(record.expires_at, record.revoked_at);
        let current = (record.hash, key_ends);
        let old = record
            .old
            .map(|(hash, until)| (hash, earliest(Some(until), key_ends)));
        let secrets: Vec<_> = std::iter::once(current).chain(old).collect();
        for (hash, ends) in &secrets {
            let key = Key {
                id: record.id,
                limits: record.plan.limits(),
                meter: Arc::clone(&meter),
                ends: *ends,
            };
            self.by_hash.insert(*hash, Arc::new(key));
        }
        let hashes = secrets.into_iter().map(|(hash, _)| hash).collect();
        self.by_id.insert(
            record.id,
            Known {
                revision: record.revision,
                meter,
                hashes,
            },
        );
    }
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn hash(byte: u8) -> KeyHash {
        KeyHash::from_bytes([byte; 32])
    }

    fn record(revision: i64) -> KeyRecord {
        KeyRecord {
            id: KeyId(1),
            name: "test".into(),
            plan: Plan::Free,
            prefix: "as_00000".into(),
            hash: hash(1),
            old: None,
            created_at: Timestamp::default(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
            ban: None,
            unbanned_at: None,
            revision,
        }
    }

    #[test]
    fn a_rotated_key_has_two_secrets_and_one_meter_until_the_grace_ends() {
        let directory = Directory::default();
        directory.apply(&record(1));
        let grace_ends = Timestamp::from_secs(100);
        directory.apply(&KeyRecord {
            hash: hash(2),
            old: Some((hash(1), grace_ends)),
            ..record(2)
        });
        let (old, new) = (
            directory.find(&hash(1)).unwrap(),
            directory.find(&hash(2)).unwrap(),
        );
        assert!(Arc::ptr_eq(&old.meter, &new.meter));
        assert!(old.in_force(Timestamp::from_millis(99_999)) && !old.in_force(grace_ends));
        assert!(new.in_force(grace_ends));
        directory.apply(&KeyRecord {
            hash: hash(3),
            old: Some((hash(2), grace_ends)),
            ..record(3)
        });
        assert!(
            directory.find(&hash(1)).is_none(),
            "a second rotation ends the first secret"
        );
    }

    #[test]
    fn an_older_record_never_overwrites_a_newer_one() {
        let directory = Directory::default();
        directory.apply(&KeyRecord {
            revoked_at: Some(Timestamp::from_secs(1)),
            ..record(2)
        });
        directory.apply(&record(1));
        assert!(
            !directory
                .find(&hash(1))
                .unwrap()
                .in_force(Timestamp::from_secs(2))
        );
    }
}
