//! The name that an operator gives a key.

use std::str::FromStr;

use crate::key::may_contain_key;
use crate::pet::is_blank;

/// The maximum length of a name, in characters.
const MAX_LENGTH: usize = 100;

/// A name of 1 to 100 characters, at least one of them visible, no control characters, and not a secret: names are listed and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyName(pub(super) String);

impl KeyName {
    /// The name of the key that a new database starts with.
    pub(crate) fn first() -> Self {
        Self("first".into())
    }
}

impl FromStr for KeyName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let fits = text.chars().count() <= MAX_LENGTH
            && !text.chars().all(is_blank)
            && !text.contains(char::is_control);
        match fits {
            true if may_contain_key(text.as_bytes()) => Err("must not contain an API key"),
            true => Ok(Self(text.to_owned())),
            false => Err(
                "must be 1 to 100 characters, at least one of them visible and none a control character",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_100_characters_is_not_blank_and_has_no_control_characters() {
        for good in ["a", "Ann's “key” 🐶", &"é".repeat(MAX_LENGTH)] {
            assert_eq!(good.parse::<KeyName>().unwrap().0, good);
        }
        let long = "é".repeat(MAX_LENGTH + 1);
        let secret = format!("of as_{}", "a".repeat(38));
        for bad in ["", "  ", "\u{200b}\u{2800}", "a\tb", "a\nb", &long, &secret] {
            assert!(bad.parse::<KeyName>().is_err(), "{bad:?}");
        }
    }
}
