//! Failed authentications by address: 60 a minute, in a table of bounded size.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use std::net::IpAddr;
use std::sync::MutexGuard;

use super::directory::IdentityHasher;
use crate::clock::Timestamp;
use crate::limit::Quota;
use crate::limit::window::MinuteWindow;
use crate::mutex::{AlignedMutex, lock};
use crate::network::network;

/// Failed authentications that an address may have in a minute.
pub(crate) const FAILURES_PER_MINUTE: u8 = 60;

/// The number of shards, each with a separate lock and cache line: a flood of failures on all cores does not wait for one lock.
const SHARDS: usize = 16;

/// The maximum number of addresses of a shard in a minute. Those beyond it share one count, so that a flood of addresses takes a
/// bounded amount of memory.
const SHARD_CAPACITY: usize = 4_096;

/// The failed authentications of each address in this minute.
#[derive(Debug, Default)]
pub(crate) struct AuthFailures {
    /// With a random seed, so that an attacker cannot choose addresses that collide.
    hasher: RandomState,
    shards: Box<[AlignedMutex<Shard>; SHARDS]>,
}

#[derive(Debug, Default)]
struct Shard {
    /// The minute of the counts. Its own counter stays at zero: `quota` adds the count of an address to a copy.
    minute: MinuteWindow,
    /// By the hash of the network of an address: for IPv6 its /64.
    counts: HashMap<u64, u8, BuildHasherDefault<IdentityHasher>>,
    /// The count that the addresses beyond [`SHARD_CAPACITY`] share.
    overflow: u8,
}

impl AuthFailures {
    /// Counts a failure and returns the quota; the error is the quota of an address that had reached its limit before.
    pub(crate) fn record_failure(&self, address: IpAddr, now: Timestamp) -> Result<Quota, Quota> {
        let (mut shard, hash) = self.lock_shard(address, now);
        let count = shard.count_mut(hash);
        if *count >= FAILURES_PER_MINUTE {
            return Err(shard.quota(FAILURES_PER_MINUTE));
        }
        *count += 1;
        let count = *count;
        Ok(shard.quota(count))
    }

    /// Returns the quota of an address that has reached its limit.
    pub(crate) fn exhausted(&self, address: IpAddr, now: Timestamp) -> Option<Quota> {
        Some(self.quota(address, now)).filter(|quota| quota.remaining == 0)
    }

    pub(crate) fn quota(&self, address: IpAddr, now: Timestamp) -> Quota {
        let (shard, hash) = self.lock_shard(address, now);
        shard.quota(shard.count(hash))
    }

    /// Locks the shard of an address, empties it if a new minute has begun, and returns it with the hash of the address.
    fn lock_shard(&self, address: IpAddr, now: Timestamp) -> (MutexGuard<'_, Shard>, u64) {
        let hash = self.hasher.hash_one(network(address));
        // The map uses the highest and the lowest bits, so the shard is chosen by others.
        let mut shard = lock(&self.shards[(hash >> 32) as usize % SHARDS].0);
        if shard.minute.enter(now) {
            // A new map, not an emptied one: the memory that a flood took is released.
            shard.counts = HashMap::default();
            shard.overflow = 0;
        }
        (shard, hash)
    }
}

impl Shard {
    fn count(&self, hash: u64) -> u8 {
        match self.counts.get(&hash) {
            Some(count) => *count,
            None if self.counts.len() < SHARD_CAPACITY => 0,
            None => self.overflow,
        }
    }

    fn count_mut(&mut self, hash: u64) -> &mut u8 {
        if self.counts.len() >= SHARD_CAPACITY && !self.counts.contains_key(&hash) {
            return &mut self.overflow;
        }
        self.counts.entry(hash).or_default()
    }

    /// The quota after this number of failures.
    fn quota(&self, count: u8) -> Quota {
        let mut window = self.minute;
        window.count(count.into());
        window.quota(FAILURES_PER_MINUTE.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_sixty_first_failure_of_a_minute_is_rejected_and_the_next_minute_is_new() {
        let table = AuthFailures::default();
        let now = Timestamp::from_secs(59);
        for left in (0..60).rev() {
            assert_eq!(
                table
                    .record_failure(ip("192.0.2.1"), now)
                    .unwrap()
                    .remaining,
                left
            );
        }
        assert!(
            table.record_failure(ip("::ffff:192.0.2.1"), now).is_err(),
            "the same address as IPv6"
        );
        assert!(table.exhausted(ip("192.0.2.1"), now).is_some());
        assert!(table.record_failure(ip("192.0.2.2"), now).is_ok());
        assert!(
            table
                .record_failure(ip("192.0.2.1"), Timestamp::from_secs(60))
                .is_ok()
        );
    }

    #[test]
    fn ipv6_counts_by_its_64() {
        let table = AuthFailures::default();
        let now = Timestamp::from_secs(0);
        table.record_failure(ip("2001:db8::1"), now).unwrap();
        assert_eq!(
            table
                .record_failure(ip("2001:db8::ffff:0:0:2"), now)
                .unwrap()
                .remaining,
            58
        );
        assert_eq!(
            table
                .record_failure(ip("2001:db8:0:1::1"), now)
                .unwrap()
                .remaining,
            59
        );
    }

    #[test]
    fn the_table_is_bounded_and_addresses_beyond_it_share_a_count() {
        let table = AuthFailures::default();
        let now = Timestamp::from_secs(0);
        // Until every shard is full. The shared counts are exhausted by then.
        for n in 0..2 * u32::try_from(SHARDS * SHARD_CAPACITY).unwrap() {
            let _ = table.record_failure(IpAddr::from(n.to_be_bytes()), now);
        }
        let lengths = table
            .shards
            .each_ref()
            .map(|shard| shard.0.lock().unwrap().counts.len());
        assert_eq!(lengths, [SHARD_CAPACITY; SHARDS]);
        assert!(table.record_failure(ip("203.0.113.1"), now).is_err());
        assert!(table.exhausted(ip("203.0.113.2"), now).is_some());
        assert_eq!(
            table.record_failure(ip("0.0.0.1"), now).unwrap().remaining,
            58,
            "a known address keeps its count"
        );
    }

    #[test]
    fn addresses_beyond_the_table_have_sixty_failures_together() {
        let mut shard = Shard::default();
        for hash in 0..SHARD_CAPACITY as u64 {
            *shard.count_mut(hash) += 1;
        }
        let (one, other) = (SHARD_CAPACITY as u64, u64::MAX);
        *shard.count_mut(one) += 7;
        assert_eq!((shard.count(one), shard.count(other)), (7, 7));
        assert_eq!((shard.count(0), shard.counts.len()), (1, SHARD_CAPACITY));
    }

    #[test]
    fn an_address_is_exhausted_after_its_last_failure_and_not_before() {
        let (table, address) = (AuthFailures::default(), ip("192.0.2.1"));
        let now = Timestamp::from_secs(0);
        assert_eq!(table.quota(address, now).remaining, 60);
        for _ in 0..59 {
            table.record_failure(address, now).unwrap();
        }
        assert_eq!(table.exhausted(address, now), None);
        table.record_failure(address, now).unwrap();
        let exhausted = table.exhausted(address, now).unwrap();
        assert_eq!((exhausted.limit, exhausted.remaining), (60, 0));
        assert_eq!(table.record_failure(address, now).unwrap_err(), exhausted);
    }

    #[test]
    fn the_count_beyond_the_table_is_for_addresses_that_are_not_in_it() {
        let mut shard = Shard {
            overflow: 7,
            ..Shard::default()
        };
        for hash in 1..SHARD_CAPACITY as u64 {
            *shard.count_mut(hash) += 1;
        }
        assert_eq!(shard.count(0), 0, "the table is not full");
        *shard.count_mut(0) += 1;
        assert_eq!((shard.count(0), shard.count(u64::MAX)), (1, 7));
    }
}
