//! `X-Request-Id`: that of the client, if it is valid, or a new one.

use std::cell::Cell;

use http::header::HeaderValue;

use super::Field;

const MAX_LENGTH: usize = 64;

/// The ID of a request, stored inline: it is written into a header and into the log, and allocated only for the header.
#[derive(Clone, Copy, Debug)]
pub struct RequestId {
    bytes: [u8; MAX_LENGTH],
    length: usize,
}

impl RequestId {
    /// An ID with this text, which MUST be valid.
    pub(crate) fn new(text: &[u8]) -> Self {
        let length = text.len().min(MAX_LENGTH);
        let mut bytes = [0; MAX_LENGTH];
        bytes[..length].copy_from_slice(&text[..length]);
        Self { bytes, length }
    }

    pub fn as_str(&self) -> &str {
        // It is always ASCII.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// As bytes: only letters, digits, `-`, `_` and `.`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(super) fn value(&self) -> HeaderValue {
        HeaderValue::from_bytes(self.as_bytes()).unwrap_or(HeaderValue::from_static(""))
    }
}

/// A generator of IDs for one thread: eight random characters and a number.
pub(super) struct RequestIds {
    start: [u8; 9],
    count: Cell<u64>,
}

impl RequestIds {
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut start = [0; 9];
        getrandom::fill(&mut start)?;
        let mut start = start.map(|byte| ALPHABET[usize::from(byte % 32)]);
        start[8] = b'-';
        Ok(Self {
            start,
            count: Cell::new(0),
        })
    }

    pub(super) fn next(&self) -> RequestId {
        self.count.set(self.count.get() + 1);
        let mut id = RequestId::new(&self.start);
        let (start, mut count) = (id.length, itoa::Buffer::new());
        let count = count.format(self.count.get()).as_bytes();
        id.length += count.len();
        id.bytes[start..id.length].copy_from_slice(count);
        id
    }

    /// Returns the ID of a request: the one that the client sent, if it is valid and accepted, or a new one.
    pub(super) fn of(&self, sent: Field<'_>, is_accepted: impl FnOnce(&[u8]) -> bool) -> RequestId {
        match sent {
            Field::One(id) if is_valid(id) && is_accepted(id) => RequestId::new(id),
            _ => self.next(),
        }
    }
}

/// 1 to 64 of `A-Za-z0-9-_.`
fn is_valid(id: &[u8]) -> bool {
    (1..=MAX_LENGTH).contains(&id.len())
        && id
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_id_is_kept_and_any_other_replaced() {
        let ids = RequestIds::new().unwrap();
        let of = |sent| ids.of(sent, |id| id != b"secret").as_str().to_owned();
        let longest = "x".repeat(64);
        for id in ["a-B_9.", &longest] {
            assert_eq!(of(Field::One(id.as_bytes())), id);
        }
        let too_long = "x".repeat(65);
        for bad in ["a b", "", &too_long, "secret"] {
            let id = of(Field::One(bad.as_bytes()));
            assert!(id != bad && is_valid(id.as_bytes()), "{id}");
        }
        assert_ne!(of(Field::Several), of(Field::Absent));
    }
}
