//! Failed authentications by address: 60 a minute, in a table of bounded size.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Timestamp;
use crate::limit::Rate;
use crate::limit::window::Window;

/// Failed authentications that an address may have in a minute.
pub const FAILURES_PER_MINUTE: u8 = 60;

/// The most addresses remembered in a minute. Those beyond share one count, so that no flood of addresses takes memory.
const MOST: usize = 65_536;

/// The failures of this minute.
#[derive(Debug)]
pub struct AddressTable(Mutex<Failures>);

#[derive(Debug)]
struct Failures {
    /// The minute that all counts are of. Nothing is counted in it.
    minute: Window,
    by_address: HashMap<IpAddr, u8>,
    by_the_rest: u8,
}

impl Default for AddressTable {
    fn default() -> Self {
        Self(Mutex::new(Failures {
            minute: Window::minute(),
            by_address: HashMap::new(),
            by_the_rest: 0,
        }))
    }
}

impl AddressTable {
    /// Counts a failure and says what is left; or says, as an error, that nothing was left to count.
    pub fn fail(&self, address: IpAddr, now: Timestamp) -> Result<Rate, Rate> {
        let mut failures = self.enter(now);
        let count = failures.of(address);
        if *count >= FAILURES_PER_MINUTE {
            return Err(failures.rate(FAILURES_PER_MINUTE));
        }
        *count += 1;
        let count = *count;
        Ok(failures.rate(count))
    }

    /// The rate of an address that has no failures left.
    pub fn exhausted(&self, address: IpAddr, now: Timestamp) -> Option<Rate> {
        Some(self.rate(address, now)).filter(|rate| rate.remaining == 0)
    }

    /// What an address has left.
    pub fn rate(&self, address: IpAddr, now: Timestamp) -> Rate {
        let failures = self.enter(now);
        let known = failures.by_address.get(&network(address));
        let count = known.copied().unwrap_or({
            if failures.by_address.len() < MOST {
                0
            } else {
                failures.by_the_rest
            }
        });
        failures.rate(count)
    }

    fn enter(&self, now: Timestamp) -> MutexGuard<'_, Failures> {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.minute.enter(now) {
            // A new map, not an emptied one: what a flood made large is given back.
            failures.by_address = HashMap::new();
            failures.by_the_rest = 0;
        }
        failures
    }
}

impl Failures {
    fn of(&mut self, address: IpAddr) -> &mut u8 {
        let address = network(address);
        if self.by_address.len() >= MOST && !self.by_address.contains_key(&address) {
            return &mut self.by_the_rest;
        }
        self.by_address.entry(address).or_default()
    }

    /// What is left after so many.
    fn rate(&self, count: u8) -> Rate {
        let mut window = self.minute;
        window.add(count.into());
        window.rate(FAILURES_PER_MINUTE.into())
    }
}

/// What counts as one address: an IPv4 address, or the /64 that one IPv6 customer has.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_sixty_first_failure_of_a_minute_is_refused_and_the_next_minute_is_new() {
        let table = AddressTable::default();
        let now = Timestamp::from_secs(59);
        for left in (0..60).rev() {
            assert_eq!(table.fail(ip("192.0.2.1"), now).unwrap().remaining, left);
        }
        assert!(
            table.fail(ip("::ffff:192.0.2.1"), now).is_err(),
            "the same address in IPv6 clothes"
        );
        assert!(table.exhausted(ip("192.0.2.1"), now).is_some());
        assert!(table.fail(ip("192.0.2.2"), now).is_ok());
        assert!(
            table
                .fail(ip("192.0.2.1"), Timestamp::from_secs(60))
                .is_ok()
        );
    }

    #[test]
    fn ipv6_counts_by_its_64() {
        let table = AddressTable::default();
        let now = Timestamp::from_secs(0);
        table.fail(ip("2001:db8::1"), now).unwrap();
        assert_eq!(
            table
                .fail(ip("2001:db8::ffff:0:0:2"), now)
                .unwrap()
                .remaining,
            58
        );
        assert_eq!(
            table.fail(ip("2001:db8:0:1::1"), now).unwrap().remaining,
            59
        );
    }

    #[test]
    fn the_table_is_bounded_and_addresses_beyond_it_share_a_count() {
        let table = AddressTable::default();
        let now = Timestamp::from_secs(0);
        for n in 0..u32::try_from(MOST).unwrap() {
            table.fail(IpAddr::from(n.to_be_bytes()), now).unwrap();
        }
        for _ in 0..60 {
            table.fail(ip("203.0.113.1"), now).unwrap();
        }
        assert!(table.fail(ip("203.0.113.2"), now).is_err());
        assert!(
            table.fail(ip("0.0.0.1"), now).is_ok(),
            "a known address keeps its own"
        );
        assert_eq!(table.0.lock().unwrap().by_address.len(), MOST);
    }
}
