//! The API key: a record with an ID, and a secret, which is shown once; only its hash and its prefix are stored. Clients call the
//! secret their key. During the grace period of a rotation, a key has two secrets.
//! A secret is `as_` + 32 random base62 characters + 6 base62 characters of CRC-32 over everything before them,
//! so that a mistyped key is rejected without a query of the store. Neither [`Secret`] nor [`KeyHash`] can be printed by accident.

use std::fmt;
use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};

use crate::clock::Timestamp;

/// A key's ID, which is not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub i64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Distinguishes a key from lost keys with the same ID: a database that has lost changes issues the IDs of the lost keys again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyIdentity {
    pub id: KeyId,
    pub created_at: Timestamp,
}

const KEY_START: &str = "as_";
const RANDOM_LENGTH: usize = 32;
const CHECKSUM_LENGTH: usize = 6;
const CHECKED_LENGTH: usize = KEY_START.len() + RANDOM_LENGTH;
/// The length of every key, in bytes.
pub const KEY_LENGTH: usize = CHECKED_LENGTH + CHECKSUM_LENGTH;
const PREFIX_LENGTH: usize = 8;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The secret of a key. It has no `Display`, and its `Debug` reveals nothing.
pub struct Secret(String);

impl Secret {
    /// A new secret from the operating system's randomness.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut text = String::with_capacity(KEY_LENGTH);
        text.push_str(KEY_START);
        let mut bytes = [0_u8; 64];
        while text.len() < CHECKED_LENGTH {
            getrandom::fill(&mut bytes)?;
            // 248 is the largest multiple of 62 in a byte: larger values would bias towards the first characters.
            let fair = bytes.iter().filter(|byte| **byte < 248);
            for byte in fair.take(CHECKED_LENGTH - text.len()) {
                text.push(char::from(BASE62[usize::from(byte % 62)]));
            }
        }
        let check = checksum(text.as_bytes());
        text.extend(check.map(char::from));
        Ok(Self(text))
    }

    /// The secret itself, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(&self.0).into())
    }

    /// Its first eight characters, by which a holder recognizes a key in a list.
    pub fn prefix(&self) -> &str {
        &self.0[..PREFIX_LENGTH]
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The SHA-256 of a secret. Of the secret itself, only the prefix is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

/// Only the bytes: their number is always the same.
impl Hash for KeyHash {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write(&self.0);
    }
}

impl KeyHash {
    /// The hash of a key that a client has sent, possibly a mistyped one, or `None` if it does not look like a key.
    pub fn parse(text: &[u8]) -> Option<Self> {
        looks_like_a_key(text).then(|| Self(Sha256::digest(text).into()))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

/// Whether a text has the length of a key and begins like one (`as_`); it may be mistyped.
fn looks_like_a_key(text: &[u8]) -> bool {
    text.len() == KEY_LENGTH && text.starts_with(KEY_START.as_bytes())
}

/// Whether a part of a text looks like a key.
pub fn may_contain_key(text: &[u8]) -> bool {
    find_key(text).is_some()
}

/// The text, with no more than the prefix of each part that looks like a key.
pub fn without_keys(mut text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    while let Some(start) = find_key(text.as_bytes()) {
        let (before, rest) = text.split_at(start + PREFIX_LENGTH);
        safe.extend([before, "…"]);
        text = &rest[KEY_LENGTH - PREFIX_LENGTH..];
    }
    safe + text
}

/// The position of the first part of a text that looks like a key.
fn find_key(text: &[u8]) -> Option<usize> {
    text.windows(KEY_LENGTH).position(|part| {
        let (_, random) = part.split_at(KEY_START.len());
        looks_like_a_key(part) && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// Whether a text that looks like a key has the checksum of one: a mistyped key does not.
pub fn has_valid_checksum(text: &[u8]) -> bool {
    let split = text.split_at_checked(CHECKED_LENGTH);
    split.is_some_and(|(checked, check)| check == checksum(checked))
}

/// CRC-32 in six base62 characters, the most significant first.
fn checksum(checked: &[u8]) -> [u8; CHECKSUM_LENGTH] {
    let mut rest = crc32fast::hash(checked) as usize;
    let mut check = [0; CHECKSUM_LENGTH];
    for character in check.iter_mut().rev() {
        *character = BASE62[rest % 62];
        rest /= 62;
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_key_has_the_form_and_is_accepted() {
        let secret = Secret::generate().unwrap();
        let text = secret.reveal();
        assert_eq!(text.len(), 41);
        assert!(text.starts_with("as_") && text[3..].bytes().all(|b| b.is_ascii_alphanumeric()));
        assert_eq!(KeyHash::parse(text.as_bytes()), Some(secret.hash()));
        assert!(has_valid_checksum(text.as_bytes()));
        assert_eq!(secret.prefix(), &text[..8]);
        assert_ne!(Secret::generate().unwrap().reveal(), text);
    }

    #[test]
    fn every_single_wrong_character_is_noticed() {
        let secret = Secret::generate().unwrap();
        for index in 0..KEY_LENGTH {
            let mut text = secret.reveal().as_bytes().to_vec();
            text[index] = if text[index] == b'x' { b'y' } else { b'x' };
            assert!(!has_valid_checksum(&text), "{index}");
            assert_eq!(KeyHash::parse(&text).is_none(), index < KEY_START.len());
        }
        for length in [0, 34, 40] {
            let text = &secret.reveal().as_bytes()[..length];
            assert!(KeyHash::parse(text).is_none() && !has_valid_checksum(text));
        }
    }

    #[test]
    fn the_checksum_is_crc_32_in_base62() {
        // CRC-32 of "123456789" is 0xCBF43926 = 3421780262.
        assert_eq!(&checksum(b"123456789"), b"3jZRME");
    }

    #[test]
    fn of_the_keys_in_a_text_only_their_prefixes_stay() {
        let random = "a".repeat(KEY_LENGTH - KEY_START.len());
        let text = format!("é as_{random} b as_{random}c");
        assert_eq!(without_keys(&text), "é as_aaaaa… b as_aaaaa…c");
        let shorter = &text[..text.len() - 2];
        assert!(without_keys(shorter).ends_with(&format!(" b as_{}", &random[1..])));
        for other in ["", "as_", &format!("as_{}-", &random[1..])] {
            assert_eq!(without_keys(other), other);
        }
    }

    #[test]
    fn neither_type_prints_its_content() {
        let secret = Secret::generate().unwrap();
        assert_eq!(
            format!("{secret:?} {:?}", secret.hash()),
            "Secret(…) KeyHash(…)"
        );
    }
}
