//! The large bodies that are held for clients that have not read them yet, over all threads, and the limits on them.
//!
//! A client with a key can request many large pages that no other client needs, and read none. Without a limit per owner
//! (the key), one client could use up the total, and the others would get errors.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use bytes::Bytes;

use crate::mutex::lock;

/// The maximum number of bytes that are held in total.
const MAX_HELD_BYTES: usize = 64 * 1024 * 1024;

/// The maximum number of bytes that are held for one owner.
const MAX_HELD_BYTES_PER_OWNER: usize = MAX_HELD_BYTES / 4;

/// Bodies up to this size are not counted: the buffers of a connection are larger.
const MAX_UNCOUNTED_BYTES: usize = 16 * 1024;

static HELD: Mutex<HeldBodies> = Mutex::new(HeldBodies {
    by_address: BTreeMap::new(),
    by_owner: BTreeMap::new(),
    bytes: 0,
});

/// The bodies that are held, each counted once: all clients of a cached page share the same bytes.
struct HeldBodies {
    /// By the address of its bytes.
    by_address: BTreeMap<usize, HeldBody>,
    by_owner: BTreeMap<i64, usize>,
    bytes: usize,
}

struct HeldBody {
    size: usize,
    /// The owner of the first request for it: its limit counts the body until no client of any owner waits for it.
    owner: i64,
    clients: usize,
}

/// The reservation of a body, until this is dropped. It MUST be dropped before the bytes: afterwards another body can have their
/// address.
#[derive(Debug, Default)]
pub(super) struct BodyReservation(Option<NonZeroUsize>);

impl BodyReservation {
    /// Counts a body for an owner, if it is large. `None` if the limit in total or that of the owner is exceeded.
    pub(super) fn new(bytes: &Bytes, owner: i64) -> Option<Self> {
        if bytes.len() <= MAX_UNCOUNTED_BYTES {
            return Some(Self::default());
        }
        let address = bytes.as_ptr().addr();
        let is_within_limits = lock(&HELD).add(address, bytes.len(), owner);
        // Dropped again if it exceeds a limit.
        let reservation = Self(NonZeroUsize::new(address));
        is_within_limits.then_some(reservation)
    }

    /// Whether the body is large, so that it counts.
    pub(super) fn is_large(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for BodyReservation {
    /// Inlined: several reservations are dropped for each body, and nearly all of them are empty.
    #[inline]
    fn drop(&mut self) {
        if let Some(address) = self.0 {
            release(address.get());
        }
    }
}

#[cold]
fn release(address: usize) {
    lock(&HELD).remove(address);
}

impl HeldBodies {
    /// Counts a body. Returns whether it is within the limits.
    fn add(&mut self, address: usize, size: usize, owner: i64) -> bool {
        match self.by_address.entry(address) {
            Entry::Occupied(mut body) => {
                body.get_mut().clients += 1;
                true
            }
            Entry::Vacant(entry) => {
                entry.insert(HeldBody {
                    size,
                    owner,
                    clients: 1,
                });
                self.bytes += size;
                let of_owner = self.by_owner.entry(owner).or_default();
                *of_owner += size;
                self.bytes <= MAX_HELD_BYTES && *of_owner <= MAX_HELD_BYTES_PER_OWNER
            }
        }
    }

    fn remove(&mut self, address: usize) {
        let Entry::Occupied(mut body) = self.by_address.entry(address) else {
            return;
        };
        body.get_mut().clients -= 1;
        if body.get().clients > 0 {
            return;
        }
        let HeldBody { size, owner, .. } = body.remove();
        self.bytes -= size;
        if let Entry::Occupied(mut of_owner) = self.by_owner.entry(owner) {
            *of_owner.get_mut() -= size;
            if *of_owner.get() == 0 {
                of_owner.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large body and its reservation.
    fn reserve(owner: i64) -> Option<(BodyReservation, Bytes)> {
        let bytes = Bytes::from(vec![b'x'; 1 << 20]);
        BodyReservation::new(&bytes, owner).map(|reservation| (reservation, bytes))
    }

    #[test]
    fn large_bodies_are_held_up_to_a_limit_in_total_and_for_each_owner() {
        let mut bodies: Vec<_> = (0..16).map(|_| reserve(1).unwrap()).collect();
        assert!(reserve(1).is_none() && reserve(1).is_none());
        for owner in 2..5 {
            bodies.extend((0..16).map(|_| reserve(owner).unwrap()));
        }
        assert!(reserve(5).is_none() && reserve(5).is_none());
        assert!(
            BodyReservation::new(&bodies[0].1.slice(..MAX_UNCOUNTED_BYTES), 1).is_some(),
            "small"
        );
        // Bytes that are held already need no further memory, however many clients read them.
        let shared = bodies[0].1.clone();
        let mut clients: Vec<_> = (0..1_000)
            .map(|_| BodyReservation::new(&shared, 5).unwrap())
            .collect();
        bodies.drain(..16);
        clients.truncate(1);
        bodies.extend((0..15).map(|_| reserve(1).unwrap()));
        assert!(reserve(1).is_none(), "the shared bytes are still held");
        drop((clients, bodies));
        assert!(reserve(1).is_some());
        let held = lock(&HELD);
        assert!(held.by_address.is_empty() && held.by_owner.is_empty() && held.bytes == 0);
    }
}
