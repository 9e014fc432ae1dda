//! `X-Request-Id`: the caller's, where it is a valid one, or ours.

use std::cell::Cell;

use hyper::HeaderMap;
use hyper::header::HeaderValue;

use crate::api::header;
use crate::key::{KeyHash, NoRandomness, Secret};

/// The longest id.
const LONGEST: usize = 64;

/// An id, where the request is: it is written twice, into a header and into the log, and allocated once.
#[derive(Clone, Copy)]
pub(crate) struct RequestId {
    bytes: [u8; LONGEST],
    length: usize,
}

impl RequestId {
    fn new(text: &[u8]) -> Self {
        let length = text.len().min(LONGEST);
        let mut bytes = [0; LONGEST];
        bytes[..length].copy_from_slice(&text[..length]);
        Self { bytes, length }
    }

    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        // Only ASCII gets in.
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    /// As bytes: letters, digits, `-`, `_` and `.` alone.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// As a header's value.
    pub(crate) fn value(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.bytes[..self.length]).unwrap_or(HeaderValue::from_static(""))
    }
}

/// Makes the ids of one thread: eight random characters and a number.
#[derive(Debug)]
pub(crate) struct RequestIds {
    start: String,
    count: Cell<u64>,
}

impl RequestIds {
    pub(crate) fn new() -> Result<Self, NoRandomness> {
        // The source of randomness is the one for keys; this secret is thrown away and only eight characters are kept.
        let random = Secret::generate()?;
        Ok(Self {
            start: format!("{}-", &random.reveal()[3..11]),
            count: Cell::new(0),
        })
    }

    /// A new id.
    pub(crate) fn next(&self) -> RequestId {
        self.count.set(self.count.get() + 1);
        let mut id = RequestId::new(self.start.as_bytes());
        let mut count = itoa::Buffer::new();
        let count = count.format(self.count.get()).as_bytes();
        let start = id.length;
        id.length += count.len();
        id.bytes[start..id.length].copy_from_slice(count);
        id
    }

    /// The id of a request.
    pub(crate) fn of(&self, headers: &HeaderMap) -> RequestId {
        let mut sent = headers.get_all(header::REQUEST_ID).iter();
        match (sent.next(), sent.next()) {
            (Some(id), None) if is_valid(id.as_bytes()) => RequestId::new(id.as_bytes()),
            _ => self.next(),
        }
    }
}

/// 1 to 64 of `A-Za-z0-9-_.`, and not a key that was put into the wrong header: an id is logged.
fn is_valid(id: &[u8]) -> bool {
    (1..=LONGEST).contains(&id.len())
        && id
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && !KeyHash::is_like_a_key(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_id_is_kept_and_any_other_replaced() {
        let ids = RequestIds::new().unwrap();
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::REQUEST_ID, value.parse().unwrap());
            }
            ids.of(&headers).as_str().to_owned()
        };
        assert_eq!(of(&["a-B_9."]), "a-B_9.");
        assert_eq!(of(&[&"x".repeat(64)]), "x".repeat(64));
        let key = Secret::generate().unwrap();
        for bad in [
            &["a b"][..],
            &[""],
            &[&"x".repeat(65)],
            &["a", "a"],
            &[],
            &[key.reveal()],
        ] {
            let id = of(bad);
            assert!(!bad.contains(&&*id) && is_valid(id.as_bytes()), "{id}");
        }
    }
}
