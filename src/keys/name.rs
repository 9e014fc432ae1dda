//! The name that an operator gives a key.

use std::str::FromStr;

/// The maximum length of a name, in characters.
const MAX_LENGTH: usize = 100;

/// A name of 1 to 100 characters, not blank, without control characters.
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
            && !text.trim().is_empty()
            && !text.contains(char::is_control);
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err("must be 1 to 100 characters, not blank and without control characters")
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
        for bad in ["", "  ", "a\tb", "a\nb", &"é".repeat(MAX_LENGTH + 1)] {
            assert!(bad.parse::<KeyName>().is_err(), "{bad:?}");
        }
    }
}
