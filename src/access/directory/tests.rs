use std::hash::BuildHasher;

use super::*;
use crate::limit::BanPolicy;
use crate::plan::Plan;

fn hash(byte: u8) -> KeyHash {
    KeyHash([byte; 32])
}

pub(in crate::access) fn record(revision: i64) -> KeyRecord {
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
    assert_eq!(old.meter, new.meter);
    assert!(old.is_valid(Timestamp::from_millis(99_999)) && !old.is_valid(grace_ends));
    assert!(new.is_valid(grace_ends));
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
fn a_database_that_lost_changes_replaces_what_is_known() {
    let directory = Directory::default();
    let key = |id, secret, revision| KeyRecord {
        id: KeyId(id),
        hash: hash(secret),
        ..record(revision)
    };
    directory.apply(&key(1, 1, 5));
    directory.apply(&key(2, 2, 6));
    directory.apply(&key(2, 3, 7));
    directory.apply(&key(3, 7, 1));
    let meter = directory.find(&hash(1)).unwrap().meter;
    directory.expect_older();
    for secret in [1, 3] {
        assert!(directory.find(&hash(secret)).is_some(), "found meanwhile");
    }
    directory.apply(&key(1, 4, 4));
    directory.apply(&key(3, 7, 1));
    directory.remove_lost();
    assert_eq!(directory.find(&hash(4)).unwrap().meter, meter);
    assert!(directory.find(&hash(7)).is_some());
    directory.apply(&key(1, 6, 3));
    assert!(directory.find(&hash(6)).is_none(), "it is older");
    for secret in [1, 2, 3] {
        assert!(directory.find(&hash(secret)).is_none(), "{secret}");
    }
    directory.apply(&key(2, 5, 3));
    assert!(
        directory.find(&hash(5)).is_some(),
        "its ID is given to another key"
    );
}

#[test]
fn a_record_of_the_same_revision_is_applied() {
    let directory = Directory::default();
    directory.apply(&record(1));
    let revoked_at = Some(Timestamp::from_secs(1));
    directory.apply(&KeyRecord {
        revoked_at,
        ..record(1)
    });
    let key = directory.find(&hash(1)).unwrap();
    assert!(!key.is_valid(Timestamp::from_secs(1)));
}

#[test]
fn a_key_ends_when_it_expires_and_a_revoked_one_works_at_no_time() {
    let moments = [None, Some(5), Some(9)].map(|secs| secs.map(Timestamp::from_secs));
    for expires_at in moments {
        for revoked_at in moments {
            let directory = Directory::default();
            directory.apply(&KeyRecord {
                expires_at,
                revoked_at,
                ..record(1)
            });
            let key = directory.find(&hash(1)).unwrap();
            assert_eq!(key.is_revoked(), revoked_at.is_some());
            for secs in [4, 5, 8, 9] {
                let now = Timestamp::from_secs(secs);
                let is_over = revoked_at.is_some() || expires_at.is_some_and(|end| end <= now);
                assert_eq!(
                    key.is_valid(now),
                    !is_over,
                    "{expires_at:?} {revoked_at:?} {secs}"
                );
            }
        }
    }
}

#[test]
fn a_key_with_the_id_of_a_lost_one_has_counters_of_its_own() {
    let directory = Directory::default();
    directory.apply(&record(1));
    let now = Timestamp::from_secs(0);
    directory.restore_usage(now.day(), &[(record(1).id, 17)]);
    let used = || directory.used(record(1).id, now);
    directory.apply(&record(2));
    assert_eq!(used(), Some((0, 17)));
    directory.apply(&KeyRecord {
        created_at: Timestamp::from_secs(1),
        hash: hash(2),
        ..record(3)
    });
    assert_eq!(used(), Some((0, 0)));
}

#[test]
fn the_stored_usage_of_a_day_counts_for_its_key_alone() {
    let directory = Directory::default();
    for (id, byte) in [(1, 1), (2, 2)] {
        directory.apply(&KeyRecord {
            id: KeyId(id),
            hash: hash(byte),
            ..record(1)
        });
    }
    let now = Timestamp::from_secs(0);
    directory.restore_usage(now.day(), &[(KeyId(1), 17), (KeyId(3), 5)]);
    let left = |byte| {
        let key = directory.find(&hash(byte)).unwrap();
        let state = directory.meter(&key).node_state();
        state.windows.day.quota(1_000).remaining
    };
    assert_eq!((left(1), left(2)), (983, 1_000));
}

#[test]
fn the_use_of_a_key_is_that_of_the_current_minute_and_day() {
    let directory = Directory::default();
    directory.apply(&record(1));
    let key = directory.find(&hash(1)).unwrap();
    let at = Timestamp::from_secs;
    for secs in [0, 1, 60] {
        let meter = directory.meter(&key);
        meter.decide(key.limits, &BanPolicy::default(), at(secs));
    }
    let used = |secs| directory.used(KeyId(1), at(secs));
    assert_eq!(used(119), Some((1, 3)));
    assert_eq!(used(120), Some((0, 3)));
    assert_eq!(used(86_400), Some((0, 0)));
    assert_eq!(directory.used(KeyId(2), at(0)), None);
}

#[test]
fn a_hash_is_not_hashed_again() {
    let hashing = BuildHasherDefault::<IdentityHasher>::default();
    assert_eq!(hashing.hash_one(7_u64), 7);
    assert_eq!(hashing.hash_one(hash(7)), u64::from_ne_bytes([7; 8]));
}
