//! The key that a connection has used last, so that its SHA-256 is computed once and not for each request: on a CPU without
//! instructions for it, that takes 6 % of the CPU time of a cached list request. The key is still looked up in the directory each
//! time, so a revocation is not delayed, and it stays in memory no longer than its connection, whose buffers contain it anyway.

use std::cell::Cell;

use crate::key::{KEY_LENGTH, KeyHash};

/// The last key of a connection, valid or not, with its hash. Without `Debug`, because it is secret.
#[derive(Default)]
pub struct LastKey(Cell<Option<([u8; KEY_LENGTH], KeyHash)>>);

impl LastKey {
    /// The hash of a key, as from [`KeyHash::parse`].
    pub fn hash(&self, text: &[u8]) -> Option<KeyHash> {
        if let Some((last, hash)) = self.0.get()
            && is_equal(&last, text)
        {
            return Some(hash);
        }
        let hash = KeyHash::parse(text)?;
        self.0.set(text.try_into().ok().map(|text| (text, hash)));
        Some(hash)
    }
}

/// Compares all bytes, even after a difference: clients of a proxy share connections, and the time of a comparison must tell them
/// nothing about each other's keys.
fn is_equal(last: &[u8; KEY_LENGTH], text: &[u8]) -> bool {
    let difference = |sum, (a, b): (&u8, &u8)| sum | (a ^ b);
    text.len() == KEY_LENGTH && last.iter().zip(text).fold(0, difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Secret;

    #[test]
    fn every_key_of_a_connection_has_its_own_hash() {
        let secrets = [Secret::generate().unwrap(), Secret::generate().unwrap()];
        let last = LastKey::default();
        for number in [0, 0, 1, 1, 0] {
            let text = secrets[number].reveal();
            assert_eq!(last.hash(text.as_bytes()), Some(secrets[number].hash()));
            assert_eq!(last.hash(&text.as_bytes()[1..]), None);
            assert_eq!(last.hash(format!("{text}x").as_bytes()), None);
        }
    }

    #[test]
    fn differences_do_not_cancel_out() {
        let text = *b"as_0000000000000000000000000000000000000x";
        let mut other = text;
        assert!(is_equal(&text, &other));
        other[3] ^= 1;
        other[4] ^= 1;
        assert!(!is_equal(&text, &other));
    }

    #[test]
    fn a_key_that_differs_in_one_byte_is_another_key() {
        let secret = Secret::generate().unwrap();
        let text = secret.reveal().as_bytes();
        for index in 0..KEY_LENGTH {
            let last = LastKey::default();
            last.hash(text);
            let mut other = text.to_vec();
            other[index] ^= 1;
            assert_ne!(last.hash(&other), Some(secret.hash()), "{index}");
            assert_eq!(last.hash(text), Some(secret.hash()));
        }
    }
}
