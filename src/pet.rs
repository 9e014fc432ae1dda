//! The animal, called `Pet` in code and `pets` in paths and commands: its types, which cannot hold an invalid value, and its JSON
//! format.

mod blank;
mod body;
mod csv;
mod ids;
mod row;
mod syntax;

pub(crate) use blank::is_blank;
pub use body::InvalidBody;
pub use csv::CsvColumns;
pub use ids::IdSource;
pub use row::PetRow;

use std::fmt;
use std::str::FromStr;

use crate::names::{FromName, named};

/// An animal's ID, assigned on creation. Only an import that keeps IDs can use that of a removed animal again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PetId(pub i64);

impl PetId {
    /// The largest ID that an imported animal may keep, so that enough are left for new ones.
    pub const LARGEST_KEPT: i64 = 1 << 62;

    /// Parses the canonical spelling of an ID: decimal digits, no sign but `-`, no leading zero.
    pub fn from_path(text: &str) -> Option<Self> {
        match text.as_bytes() {
            [b'0'] | [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] => text.parse().ok().map(Self),
            _ => None,
        }
    }
}

impl fmt::Display for PetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An animal's name: 1 to 255 Unicode scalar values, at least one of them visible, no control characters, kept as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PetName(String);

impl PetName {
    /// The maximum number of scalar values.
    pub const MAX_LENGTH: usize = 255;

    /// Returns the text as a name, or all rules that it breaks.
    pub fn new(text: String) -> Result<Self, String> {
        Self::checked(text, is_blank)
    }

    /// The same by the weakest rules of any version: an animal that exists keeps its name, even in another store. By those, only
    /// white space is blank.
    pub fn of_existing(text: String) -> Result<Self, String> {
        Self::checked(text, char::is_whitespace)
    }

    fn checked(text: String, is_blank: fn(char) -> bool) -> Result<Self, String> {
        let rules = [
            (text.chars().all(is_blank), "must not be blank"),
            (
                text.chars().nth(Self::MAX_LENGTH).is_some(),
                "must be at most 255 characters long",
            ),
            (
                text.chars().any(char::is_control),
                "must not contain control characters",
            ),
        ];
        let broken: Vec<&str> = rules
            .into_iter()
            .filter_map(|(broken, rule)| broken.then_some(rule))
            .collect();
        if broken.is_empty() {
            Ok(Self(text))
        } else {
            Err(broken.join(" and "))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

named! {
    /// Whether an animal can be adopted: it is pending while an order for it is open, and sold when that is complete.
    // In the order an animal goes through them.
    #[derive(Hash, clap::ValueEnum)]
    pub enum PetStatus {
        Available = "available",
        Pending = "pending",
        Sold = "sold",
    }
}

const NOT_A_STATUS: &str = "must be one of available, pending, sold";

impl FromStr for PetStatus {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        Self::from_name(name).ok_or(NOT_A_STATUS)
    }
}

/// An animal before it has an ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPet {
    pub name: PetName,
    /// Its category, any int64: the API does not define categories.
    pub category_id: i64,
    /// Its status; `available` by default.
    pub status: PetStatus,
}

impl NewPet {
    pub fn with_id(self, id: PetId) -> Pet {
        Pet {
            id,
            name: self.name.0,
            category_id: self.category_id,
            status: self.status,
        }
    }
}

/// An animal of the store. Its name is plain text: a name that was accepted stays valid, even if the rules for new ones become
/// stricter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pet {
    pub id: PetId,
    pub name: String,
    pub category_id: i64,
    pub status: PetStatus,
}

impl Pet {
    pub fn write_json(&self, out: &mut Vec<u8>) {
        write_json(
            out,
            self.id,
            &self.name,
            self.category_id,
            self.status.as_str(),
        );
    }
}

/// Appends the JSON object of an animal by its fields, so that a store can write rows without copying them.
pub fn write_json(out: &mut Vec<u8>, id: PetId, name: &str, category_id: i64, status: &str) {
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(itoa::Buffer::new().format(id.0).as_bytes());
    out.extend_from_slice(b",\"name\":");
    // Writing to a Vec cannot fail, and every str can be written as JSON.
    let _ = serde_json::to_writer(&mut *out, name);
    out.extend_from_slice(b",\"categoryId\":");
    out.extend_from_slice(itoa::Buffer::new().format(category_id).as_bytes());
    out.extend_from_slice(b",\"status\":\"");
    out.extend_from_slice(status.as_bytes());
    out.extend_from_slice(b"\"}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_255_scalar_values_is_not_blank_and_has_no_controls() {
        let name = |text: &str| PetName::new(text.to_owned());
        assert!(name("a").is_ok());
        assert!(name(&"🐕".repeat(255)).is_ok());
        assert!(name(" padded ").is_ok_and(|name| name.as_str() == " padded "));
        for bad in [
            "",
            " ",
            "\u{a0}\u{3000}",
            "a\nb",
            "a\u{7f}",
            "\u{85}x",
            &"x".repeat(256),
        ] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_id_has_one_spelling() {
        assert_eq!(PetId::from_path("7"), Some(PetId(7)));
        assert_eq!(
            PetId::from_path("-9223372036854775808"),
            Some(PetId(i64::MIN))
        );
        for bad in [
            "",
            "+7",
            "07",
            "-0",
            "7.0",
            "9223372036854775808",
            "seven",
            " 7",
        ] {
            assert_eq!(PetId::from_path(bad), None, "{bad}");
        }
    }

    #[test]
    fn json_escapes_the_name() {
        let pet = Pet {
            id: PetId(1),
            name: "a\"b".into(),
            category_id: -2,
            status: PetStatus::Sold,
        };
        let mut out = Vec::new();
        pet.write_json(&mut out);
        assert_eq!(
            out,
            br#"{"id":1,"name":"a\"b","categoryId":-2,"status":"sold"}"#
        );
    }
}
