//! The reservations of streams over HTTP/2, besides the first of each connection: their limits, in total and per address.

use super::{OpenConnections, Slot};
use crate::mutex::lock;

/// How many streams are reserved at a time, while there are plenty.
const STREAM_BATCH: usize = 16;

impl Slot {
    /// Reserves streams until this connection has at least this many besides the first, unless too many are in flight on all
    /// connections, or from this address. Several are reserved at a time, because all threads share the lock, until an eighth of a limit
    /// is reserved: then only what is needed, so that no connection lacks what others do not use. Returns whether it has them.
    pub(in crate::http) fn reserve(&self, streams: usize) -> bool {
        if streams <= self.reserved.get() {
            return true;
        }
        let limits = self.connections.0.limits.streams;
        let mut open = lock(&self.connections.0.open);
        let mut left = limits.total.saturating_sub(open.streams);
        let mut is_scarce = open.streams >= limits.total / 8;
        if let Some(network) = self.network {
            let reserved = open.streams_by_network.get(&network).copied();
            let reserved = reserved.unwrap_or(0);
            // The last tenth is for addresses with few streams: otherwise a few addresses with many (ten, with the default limits)
            // could take them all.
            if reserved >= STREAM_BATCH {
                left = left.saturating_sub(limits.total / 10);
            }
            left = left.min(limits.per_address.saturating_sub(reserved));
            is_scarce |= reserved >= limits.per_address / 8;
        }
        self.is_scarce.set(is_scarce);
        let more = left.min(match is_scarce {
            true => streams - self.reserved.get(),
            false => STREAM_BATCH,
        });
        open.streams += more;
        if let Some(network) = self.network {
            *open.streams_by_network.entry(network).or_default() += more;
        }
        self.reserved.set(self.reserved.get() + more);
        streams <= self.reserved.get()
    }

    /// Releases what a connection with this many requests in flight does not need. A few stay reserved while there are plenty, so that
    /// the lock is not taken for each request.
    pub(in crate::http) fn release_beyond(&self, in_flight: usize) {
        let slack = match in_flight == 0 || self.is_scarce.get() {
            true => 0,
            false => STREAM_BATCH,
        };
        let needed = in_flight.saturating_sub(1);
        let surplus = self.reserved.get().saturating_sub(needed + slack);
        // Only if that is another batch: a connection whose streams come and go would release and reserve in turn.
        if surplus > slack {
            self.release(surplus, &mut lock(&self.connections.0.open));
        }
    }

    pub(super) fn release(&self, streams: usize, open: &mut OpenConnections) {
        self.reserved.set(self.reserved.get() - streams);
        open.streams -= streams;
        if let Some(network) = self.network
            && let Some(count) = open.streams_by_network.get_mut(&network)
        {
            *count -= streams;
            if *count == 0 {
                open.streams_by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{connections, ip};
    use super::*;

    #[test]
    fn the_last_tenth_of_all_streams_is_for_addresses_with_few() {
        let connections = connections(200, 100);
        let enter = |address| connections.enter(ip(address)).unwrap();
        let (one, two, three) = (enter("192.0.2.1"), enter("192.0.2.2"), enter("192.0.2.3"));
        let reserved = |slot: &Slot| (1..).find(|streams| !slot.reserve(*streams)).unwrap() - 1;
        assert_eq!((reserved(&one), reserved(&two)), (100, 80));
        assert_eq!(reserved(&three), STREAM_BATCH);
        one.release_beyond(0);
        assert_eq!(reserved(&three), 100);
    }

    #[test]
    fn connections_that_need_few_streams_do_not_lack_what_others_do_not_use() {
        let connections = connections(200, 100);
        let enter = |_| connections.enter(ip("192.0.2.1")).unwrap();
        let many: Vec<Slot> = (0..70).map(enter).collect();
        assert!(many.iter().all(|slot| slot.reserve(1)));
        let reserved = || lock(&connections.0.open).streams;
        assert!(reserved() < 100);
        many.iter().for_each(|slot| slot.release_beyond(0));
        assert_eq!(reserved(), 0);
        let one = &many[0];
        (1..=100).for_each(|streams| assert!(one.reserve(streams)));
        one.release_beyond(90);
        assert_eq!(reserved(), 89);
        one.release_beyond(1);
        assert_eq!(reserved(), 0);
        assert!(one.reserve(1));
        assert_eq!(reserved(), STREAM_BATCH);
        one.release_beyond(1);
        assert_eq!(reserved(), STREAM_BATCH, "there are plenty");
        assert!(many[1].reserve(1));
    }
}
