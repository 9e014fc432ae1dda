//! Requests as bytes, built before the measurement.

use std::net::Ipv4Addr;

use animal_store::page::{Cursor, Scope};

/// The number of distinct requests, if they differ.
const VARIETY: usize = 200_000;

/// The number of addresses that send requests without a key. The server counts 60 failures per minute for each of them: enough for
/// the rounds of a minute. Its table has 16 shards of 4,096 addresses, and a hash decides which: with 60,000 none is full.
const ADDRESSES: u32 = 60_000;

/// Requests that are sent round robin, and their expected status.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    next: usize,
    /// The expected status of every response.
    pub(crate) status: u16,
}

impl Requests {
    fn new(status: u16, all: impl Iterator<Item = String>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for request in all {
            bytes.extend_from_slice(request.as_bytes());
            ends.push(bytes.len());
        }
        Self {
            bytes,
            ends,
            next: 0,
            status,
        }
    }

    /// The next request.
    pub(crate) fn next(&mut self) -> &[u8] {
        let place = self.next;
        self.next = (place + 1) % self.ends.len();
        let begin = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.bytes[begin..self.ends[place]]
    }

    /// The same GET, repeated.
    pub(crate) fn get(path: &str, key: &str) -> Self {
        Self::new(200, std::iter::once(get(path, key)))
    }

    /// The same GET, rejected because of the limit of its key.
    pub(crate) fn limited(path: &str, key: &str) -> Self {
        Self {
            status: 429,
            ..Self::get(path, key)
        }
    }

    /// A GET with many keys in random order.
    pub(crate) fn by_keys(path: &str, keys: &[String]) -> Self {
        let mut order: Vec<&String> = keys.iter().collect();
        fastrand::shuffle(&mut order);
        Self::new(200, order.into_iter().map(|key| get(path, key)))
    }

    /// GETs without a key, each from a different address.
    pub(crate) fn unauthorized(path: &str) -> Self {
        let request = |number: u32| {
            let from = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + number);
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: {from}\r\n\r\n")
        };
        Self::new(401, (0..ADDRESSES).map(request))
    }

    /// Pages that start at a random animal. They have 11 to 29 animals, 20 on average: with one page size, all pages of ten thousand
    /// animals would fit into the cache, and this measures cache misses.
    pub(crate) fn random_pages(animals: u32, key: &str) -> Self {
        let request = |_| {
            let last = i64::from(animals) - 30;
            let cursor = Cursor::after(fastrand::i64(0..last)).bound_to(Scope::Pets(None));
            let limit = fastrand::u8(11..=29);
            get(&format!("/v1/pets?limit={limit}&cursor={cursor}"), key)
        };
        Self::new(200, (0..VARIETY).map(request))
    }

    /// Creations of animals.
    pub(crate) fn creations(key: &str) -> Self {
        let request = |number: usize| {
            let body = format!(r#"{{"name":"pet {number}","categoryId":{}}}"#, number % 10);
            format!(
                "POST /v1/pets HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        Self::new(201, (0..10_000).map(request))
    }
}

fn get(path: &str, key: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_in_turn_and_again() {
        let mut requests = Requests::new(200, ["a", "bc", "d"].into_iter().map(str::to_owned));
        let seen: Vec<Vec<u8>> = (0..4).map(|_| requests.next().to_vec()).collect();
        assert_eq!(seen.concat(), b"abcda");
    }
}
