//! `X-Request-Id`: the caller's, where it is a valid one, or ours.

use std::borrow::Cow;
use std::cell::Cell;

use hyper::HeaderMap;

use crate::api::header;
use crate::key::{KeyHash, NoRandomness, Secret};

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
            start: random.reveal()[3..11].to_owned(),
            count: Cell::new(0),
        })
    }

    /// A new id.
    pub(crate) fn next(&self) -> String {
        self.count.set(self.count.get() + 1);
        format!("{}-{}", self.start, self.count.get())
    }

    /// The id of a request.
    pub(crate) fn of<'a>(&self, headers: &'a HeaderMap) -> Cow<'a, str> {
        let mut sent = headers.get_all(header::REQUEST_ID).iter();
        match (sent.next(), sent.next()) {
            (Some(id), None) if is_valid(id.as_bytes()) => String::from_utf8_lossy(id.as_bytes()),
            _ => Cow::Owned(self.next()),
        }
    }
}

/// 1 to 64 of `A-Za-z0-9-_.`, and not a key that was put into the wrong header: an id is logged.
fn is_valid(id: &[u8]) -> bool {
    (1..=64).contains(&id.len())
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
            ids.of(&headers).into_owned()
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
