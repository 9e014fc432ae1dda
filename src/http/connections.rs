//! The open connections of a listener, over all threads that serve it: how many there may be, in all and from one address, and
//! which one makes room when there is none left.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::network::network;

/// How many connections to find at once when room is needed: a search looks at all of them.
const FOUND_AT_ONCE: usize = 64;

/// How many connections may be making room at a time.
const MAX_CLOSING: usize = 16;

/// The most connections that are refused with a response at the same time.
const MAX_REFUSALS: usize = 32;

/// [`Activity::idle_since`] of a connection with a request at work.
const BUSY: u64 = u64::MAX;

/// How many connections there may be.
pub struct Caps {
    /// In all.
    pub total: usize,
    /// From one address.
    pub per_address: usize,
    /// Whether the connections of an address carry the requests of many clients, so that its cap does not apply.
    pub is_exempt: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

impl fmt::Debug for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in all, {} from one address",
            self.total, self.per_address
        )
    }
}

/// The connections of one listener.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    caps: Caps,
    /// The moment that times are counted from.
    epoch: Instant,
    open: Mutex<Open>,
    /// Permits to be refused with a response.
    refusals: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Open {
    /// Those that make room and have not closed yet.
    closing: usize,
    by_id: HashMap<u64, Arc<Activity>>,
    by_network: HashMap<u64, usize>,
    next_id: u64,
    /// Those that had been idle longest when last searched for, the longest last. One that was used since is skipped; all
    /// others became idle later.
    longest_idle: Vec<(u64, u64)>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All are at work.
    Total,
    /// Its address has as many as it may.
    Address,
}

impl Connections {
    /// No connections yet.
    pub fn new(caps: Caps) -> Self {
        Self(Arc::new(Shared {
            caps,
            epoch: Instant::now(),
            open: Mutex::default(),
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
        }))
    }

    /// Takes in a connection from this address, until what is returned is dropped. Where there is no room, the connection that
    /// has been idle longest is closed.
    pub(super) fn enter(&self, peer: IpAddr) -> Result<Slot, Full> {
        let Shared { caps, epoch, .. } = &*self.0;
        let network = (!(caps.is_exempt)(peer)).then(|| network(peer));
        let mut open = self.0.lock();
        if let Some(network) = network
            && open.by_network.get(&network).copied().unwrap_or(0) >= caps.per_address
        {
            return Err(Full::Address);
        }
        if open.by_id.len() >= caps.total && !open.evict() {
            return Err(Full::Total);
        }
        let activity = Arc::new(Activity::new(*epoch));
        let id = open.next_id;
        open.next_id += 1;
        open.by_id.insert(id, Arc::clone(&activity));
        if let Some(network) = network {
            *open.by_network.entry(network).or_default() += 1;
        }
        Ok(Slot {
            connections: self.clone(),
            id,
            network,
            activity,
        })
    }

    /// Whether so many are still making room that no further one should be accepted: each of them has its file open yet.
    pub(super) fn are_closing(&self) -> bool {
        self.0.lock().closing >= MAX_CLOSING
    }

    /// A permit to refuse a connection with a response. None where there are too many of them: each has its file open.
    pub(super) fn refuse(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.refusals).try_acquire_owned().ok()
    }

    /// Wakes every connection, so that it sees that the server shuts down.
    pub(super) fn wake_all(&self) {
        for connection in self.0.lock().by_id.values() {
            connection.wake();
        }
    }

    /// How many are open.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().by_id.len()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Closes the connection that has been idle longest. False where none is idle.
    fn evict(&mut self) -> bool {
        loop {
            if self.longest_idle.is_empty() {
                self.find_idle();
            }
            let Some((since, id)) = self.longest_idle.pop() else {
                return false;
            };
            let unused = self.by_id.get(&id).is_some_and(|c| c.idle_since() == since);
            if unused && let Some(connection) = self.by_id.remove(&id) {
                connection.evict();
                self.closing += 1;
                return true;
            }
        }
    }

    fn find_idle(&mut self) {
        let mut idle: Vec<(u64, u64)> = self
            .by_id
            .iter()
            .map(|(id, connection)| (connection.idle_since(), *id))
            .filter(|(since, _)| *since != BUSY)
            .collect();
        if idle.len() > FOUND_AT_ONCE {
            idle.select_nth_unstable(FOUND_AT_ONCE);
            idle.truncate(FOUND_AT_ONCE);
        }
        idle.sort_unstable_by(|one, other| other.cmp(one));
        self.longest_idle = idle;
    }
}

/// A connection that was taken in.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Connections,
    id: u64,
    network: Option<u64>,
    activity: Arc<Activity>,
}

impl Slot {
    pub(super) fn activity(&self) -> &Activity {
        &self.activity
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.connections.0.lock();
        if open.by_id.remove(&self.id).is_none() {
            open.closing = open.closing.saturating_sub(1);
        }
        if let Some(network) = self.network
            && let Some(count) = open.by_network.get_mut(&network)
        {
            *count -= 1;
            if *count == 0 {
                open.by_network.remove(&network);
            }
        }
        // What a flood made large is given back.
        if open.by_id.is_empty() {
            *open = Open {
                closing: open.closing,
                next_id: open.next_id,
                ..Open::default()
            };
        }
    }
}

/// What one connection does, as the others may see it. Written by its own thread.
#[derive(Debug)]
pub(super) struct Activity {
    epoch: Instant,
    /// Since when the connection waits for its client, in nanoseconds after the epoch.
    idle_since: AtomicU64,
    evicted: AtomicBool,
    /// Wakes the task of the connection.
    task: OnceLock<Waker>,
}

impl Activity {
    fn new(epoch: Instant) -> Self {
        let activity = Self {
            epoch,
            idle_since: AtomicU64::new(BUSY),
            evicted: AtomicBool::new(false),
            task: OnceLock::new(),
        };
        activity.is_idle(Instant::now());
        activity
    }

    /// The client is waited for, since `now`.
    pub(super) fn is_idle(&self, now: Instant) {
        let since = now.duration_since(self.epoch).as_nanos() as u64;
        self.idle_since.store(since, Ordering::Relaxed);
    }

    /// A request is at work.
    pub(super) fn is_busy(&self) {
        self.idle_since.store(BUSY, Ordering::Relaxed);
    }

    /// Remembers whom to wake.
    pub(super) fn watch(&self, waker: &Waker) {
        self.task.get_or_init(|| waker.clone());
    }

    /// Whether the connection has to make room for another.
    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    fn idle_since(&self) -> u64 {
        self.idle_since.load(Ordering::Relaxed)
    }

    fn evict(&self) {
        self.evicted.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn connections(total: usize, per_address: usize) -> Connections {
        Connections::new(Caps {
            total,
            per_address,
            is_exempt: Box::new(|address| address == ip("10.0.0.1")),
        })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_as_many_as_it_may_and_ipv6_counts_by_its_64() {
        let connections = connections(100, 2);
        let mut kept = Vec::new();
        for one in ["192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2"] {
            kept.push(connections.enter(ip(one)).unwrap());
        }
        for full in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::3"] {
            assert_eq!(connections.enter(ip(full)).unwrap_err(), Full::Address);
        }
        kept.push(connections.enter(ip("2001:db8:0:1::1")).unwrap());
        kept.extend((0..9).map(|_| connections.enter(ip("10.0.0.1")).unwrap()));
        kept.remove(0);
        kept.push(connections.enter(ip("192.0.2.1")).unwrap());
        assert_eq!(connections.count(), kept.len());
        kept.clear();
        assert_eq!(connections.count(), 0);
        assert!(connections.0.lock().by_network.is_empty());
    }

    #[test]
    fn the_one_that_has_been_idle_longest_makes_room_and_one_at_work_never_does() {
        let connections = connections(3, 100);
        let enter = || connections.enter(ip("192.0.2.1"));
        let (one, two, three) = (enter().unwrap(), enter().unwrap(), enter().unwrap());
        let later = |seconds| Instant::now() + Duration::from_secs(seconds);
        one.activity().is_busy();
        two.activity().is_idle(later(20));
        three.activity().is_idle(later(10));
        let four = enter().unwrap();
        assert!(three.activity().is_evicted() && !two.activity().is_evicted());
        four.activity().is_idle(later(15));
        two.activity().is_idle(later(30));
        let five = enter().unwrap();
        assert!(four.activity().is_evicted() && !two.activity().is_evicted());
        five.activity().is_busy();
        two.activity().is_busy();
        assert_eq!(enter().unwrap_err(), Full::Total);
        assert!(!one.activity().is_evicted());
        drop((three, four));
        assert_eq!(connections.count(), 3, "they had left already");
    }
}
