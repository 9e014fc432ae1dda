//! The open connections of a listener, over all threads that serve it: their limits, in total and per address, and which one is
//! evicted when the total is reached.

mod streams;

use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::activity::Activity;
use super::rejection::ReachedLimit;
use crate::mutex::lock;
use crate::network::network;

/// The maximum number of eviction candidates that one search finds: a search visits all connections, so it is not repeated for each
/// eviction.
const MAX_CANDIDATES: usize = 64;

/// How long connections with unread responses are evicted in the order that a search has found. Connections that began to wait
/// meanwhile would come first, but a search for each eviction would cost too much, and new connections would evict each other before
/// they send a request.
const SEARCH_VALIDITY: Duration = Duration::from_millis(100);

/// The maximum number of evicted connections that are still closing.
const MAX_CLOSING: usize = 16;

/// The maximum number of connections that are rejected with a response at the same time.
const MAX_REJECTIONS: usize = 32;

pub struct ConnectionLimits {
    pub connections: Maximum,
    /// The streams of HTTP/2 in flight besides the first one of each connection.
    pub streams: Maximum,
    /// Whether an address is that of a proxy with many clients, so that limits per address do not apply.
    pub is_exempt: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

#[derive(Clone, Copy)]
pub struct Maximum {
    pub total: usize,
    pub per_address: usize,
}

/// The connections of one listener.
#[derive(Clone)]
pub struct Connections(Arc<ConnectionTable>);

struct ConnectionTable {
    limits: ConnectionLimits,
    /// The origin of all times.
    epoch: Instant,
    open: Mutex<OpenConnections>,
    /// Permits to reject a connection with a response.
    rejections: Arc<Semaphore>,
}

#[derive(Default)]
struct OpenConnections {
    /// Evicted connections that have not closed yet.
    closing: usize,
    by_id: HashMap<u64, Arc<Activity>>,
    by_network: HashMap<u64, usize>,
    /// Reserved streams, in total and by network.
    streams: usize,
    streams_by_network: HashMap<u64, usize>,
    next_id: u64,
    /// The rank and the ID of the connections that had waited longest for their clients at the last search, the longest last. One that was
    /// used since is skipped. Connections that are not in this list rank after those in it whose rank is not later than the search.
    longest_waiting: Vec<(u64, u64)>,
    /// The time of the last search, since the epoch.
    searched_at: Duration,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(ConnectionTable {
            limits,
            epoch: Instant::now(),
            open: Mutex::default(),
            rejections: Arc::new(Semaphore::new(MAX_REJECTIONS)),
        }))
    }

    /// Registers a connection from this address until the slot is dropped. If the total is reached, evicts the connection that has
    /// waited longest for its client.
    pub(super) fn enter(&self, peer: IpAddr) -> Result<Slot, ReachedLimit> {
        let ConnectionTable { limits, epoch, .. } = &*self.0;
        let network = (!(limits.is_exempt)(peer)).then(|| network(peer));
        let mut open = lock(&self.0.open);
        if let Some(network) = network
            && open.by_network.get(&network).copied().unwrap_or(0) >= limits.connections.per_address
        {
            return Err(ReachedLimit::Address);
        }
        if open.by_id.len() >= limits.connections.total && !open.evict(epoch.elapsed()) {
            return Err(ReachedLimit::Total);
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
            reserved: Cell::new(0),
            is_scarce: Cell::new(false),
        })
    }

    /// Whether too many evicted connections are still closing to accept another one: each still has an open file.
    pub(super) fn too_many_closing(&self) -> bool {
        lock(&self.0.open).closing >= MAX_CLOSING
    }

    /// A permit to reject a connection with a response, unless too many have one: each has an open file.
    pub(super) fn rejection_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.rejections).try_acquire_owned().ok()
    }

    /// Wakes every connection, so that it notices the shutdown.
    pub(super) fn wake_all(&self) {
        for connection in lock(&self.0.open).by_id.values() {
            connection.wake();
        }
    }

    /// How many are open.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0.open).by_id.len()
    }
}

impl OpenConnections {
    /// Evicts the connection that has waited longest for its client. Returns false if none waits. `now` is the time since the
    /// epoch.
    fn evict(&mut self, now: Duration) -> bool {
        loop {
            // A rank later than the search is that of an unread response: connections that began to wait since then may rank before it.
            let is_outdated = self.longest_waiting.last().is_none_or(|(rank, _)| {
                Duration::from_nanos(*rank) > self.searched_at
                    && self.searched_at + SEARCH_VALIDITY < now
            });
            if is_outdated {
                self.find_waiting();
                self.searched_at = now;
            }
            let Some((rank, id)) = self.longest_waiting.pop() else {
                return false;
            };
            let is_unchanged = self
                .by_id
                .get(&id)
                .is_some_and(|c| c.eviction_rank() == Some(rank));
            if is_unchanged && let Some(connection) = self.by_id.remove(&id) {
                connection.evict();
                self.closing += 1;
                return true;
            }
        }
    }

    fn find_waiting(&mut self) {
        let mut waiting: Vec<(u64, u64)> = self
            .by_id
            .iter()
            .filter_map(|(id, connection)| Some((connection.eviction_rank()?, *id)))
            .collect();
        if waiting.len() > MAX_CANDIDATES {
            waiting.select_nth_unstable(MAX_CANDIDATES);
            waiting.truncate(MAX_CANDIDATES);
        }
        waiting.sort_unstable_by(|one, other| other.cmp(one));
        self.longest_waiting = waiting;
    }
}

/// A registered connection.
pub(super) struct Slot {
    connections: Connections,
    id: u64,
    network: Option<u64>,
    activity: Arc<Activity>,
    /// How many streams may be in flight besides the first.
    reserved: Cell<usize>,
    /// Whether at least an eighth of a limit was reserved when this connection last reserved streams: then it keeps none that it does
    /// not need.
    is_scarce: Cell<bool>,
}

impl Slot {
    pub(super) fn activity(&self) -> &Activity {
        &self.activity
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = lock(&self.connections.0.open);
        self.release(self.reserved.get(), &mut open);
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
        // Shrinks maps that a flood has made large.
        if open.by_id.is_empty() && open.closing == 0 {
            *open = OpenConnections {
                next_id: open.next_id,
                ..OpenConnections::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn connections(total: usize, per_address: usize) -> Connections {
        let maximum = Maximum { total, per_address };
        Connections::new(ConnectionLimits {
            connections: maximum,
            streams: maximum,
            is_exempt: Box::new(|address| address == ip("10.0.0.1")),
        })
    }

    pub(super) fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_are_limited_by_address_and_ipv6_counts_by_its_64() {
        let connections = connections(100, 2);
        let mut kept = Vec::new();
        for one in ["192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2"] {
            kept.push(connections.enter(ip(one)).unwrap());
        }
        for full in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::3"] {
            assert_eq!(
                connections.enter(ip(full)).err(),
                Some(ReachedLimit::Address)
            );
        }
        kept.push(connections.enter(ip("2001:db8:0:1::1")).unwrap());
        kept.extend((0..9).map(|_| connections.enter(ip("10.0.0.1")).unwrap()));
        kept.remove(0);
        kept.push(connections.enter(ip("192.0.2.1")).unwrap());
        assert_eq!(connections.count(), kept.len());
        kept.clear();
        assert_eq!(connections.count(), 0);
        assert!(lock(&connections.0.open).by_network.is_empty());
    }

    #[test]
    fn the_connection_that_has_waited_longest_is_evicted_and_a_busy_one_never_is() {
        let connections = connections(3, 100);
        let enter = || connections.enter(ip("192.0.2.1"));
        let (one, two, three) = (enter().unwrap(), enter().unwrap(), enter().unwrap());
        let later = |seconds| Instant::now() + Duration::from_secs(seconds);
        one.activity().mark_busy();
        two.activity().mark_waiting(later(20));
        three.activity().mark_waiting(later(10));
        let four = enter().unwrap();
        assert!(three.activity().is_evicted() && !two.activity().is_evicted());
        four.activity().mark_waiting(later(15));
        two.activity().mark_waiting(later(30));
        let five = enter().unwrap();
        assert!(four.activity().is_evicted() && !two.activity().is_evicted());
        five.activity().mark_busy();
        two.activity().mark_busy();
        assert_eq!(enter().err(), Some(ReachedLimit::Total));
        assert!(!one.activity().is_evicted());
        one.activity().mark_writing(later(0));
        two.activity().mark_waiting(later(9));
        let _six = enter().unwrap();
        assert!(two.activity().is_evicted() && !one.activity().is_evicted());
        drop((one, two, three, four));
        assert_eq!(connections.count(), 2, "evicted ones were removed already");
    }

    #[test]
    fn one_whose_response_is_unread_is_evicted_after_those_that_begin_to_wait_within_ten_seconds() {
        let connections = connections(2, 100);
        let enter = || connections.enter(ip("192.0.2.1")).unwrap();
        let (unread, one) = (enter(), enter());
        unread.activity().mark_writing(Instant::now());
        let two = enter();
        std::thread::sleep(SEARCH_VALIDITY);
        let three = enter();
        assert!(one.activity().is_evicted() && two.activity().is_evicted());
        assert!(!unread.activity().is_evicted());
        let in_eleven_seconds = Instant::now() + Duration::from_secs(11);
        three.activity().mark_waiting(in_eleven_seconds);
        std::thread::sleep(SEARCH_VALIDITY);
        let _four = enter();
        assert!(unread.activity().is_evicted() && !three.activity().is_evicted());
    }

    #[test]
    fn those_that_wait_since_a_search_are_evicted_before_unread_responses_that_it_found() {
        let connections = connections(3, 100);
        let enter = || connections.enter(ip("192.0.2.1")).unwrap();
        let (unread, one, two) = (enter(), enter(), enter());
        unread.activity().mark_writing(Instant::now());
        two.activity().mark_busy();
        let three = enter();
        assert!(one.activity().is_evicted());
        three.activity().mark_busy();
        let in_a_second = Instant::now() + Duration::from_secs(1);
        two.activity().mark_waiting(in_a_second);
        // Long after the unread response counts as waiting.
        assert!(lock(&connections.0.open).evict(Duration::from_secs(30)));
        assert!(two.activity().is_evicted() && !unread.activity().is_evicted());
    }

    #[test]
    fn an_evicted_connection_counts_for_its_address_until_it_has_closed() {
        let connections = connections(1, 2);
        let enter = || connections.enter(ip("192.0.2.1"));
        let evicted = enter().unwrap();
        drop(enter().unwrap());
        let third = enter().unwrap();
        assert_eq!(enter().err(), Some(ReachedLimit::Address));
        drop((evicted, third));
        assert!(lock(&connections.0.open).by_network.is_empty());
    }
}
