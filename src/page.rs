//! Where a page of a list begins, how long it is, and what it shows.

use std::fmt;
use std::str::FromStr;

use crate::pet::PetStatus;

/// How many animals a page holds at most: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageSize(u8);

impl PageSize {
    /// The size as a number.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self(20)
    }
}

/// A text that is no page size.
#[derive(Debug, thiserror::Error)]
#[error("takes a whole number from 1 to 100")]
pub struct NotAPageSize;

impl FromStr for PageSize {
    type Err = NotAPageSize;

    fn from_str(text: &str) -> Result<Self, NotAPageSize> {
        match text.parse() {
            Ok(size @ 1..=100) if text == size.to_string() => Ok(Self(size)),
            _ => Err(NotAPageSize),
        }
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A place in a list: behind the row with this identifier.
///
/// As text it is the identifier in sixteen hex digits, each followed by a letter of its own (`0g`, `1h`, … `fv`).
/// A cursor that lost, gained or changed a character is noticed, and yet a regular expression in the OpenAPI document
/// says exactly which cursors are whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor(u64);

const DIGITS: &[u8; 16] = b"0123456789abcdef";
const CHECKS: &[u8; 16] = b"ghijklmnopqrstuv";

impl Cursor {
    /// The place behind the row with this identifier. None has a negative one, so a list begins behind zero.
    pub const fn after(id: i64) -> Self {
        Self(if id < 0 { 0 } else { id.unsigned_abs() })
    }

    /// The identifier behind which the page begins.
    pub const fn id(self) -> i64 {
        // The first digit is 0 to 7, so this never wraps.
        self.0.cast_signed()
    }
}

/// A text that is no cursor of ours.
#[derive(Debug, thiserror::Error)]
#[error("takes only the value from a Link header of this service, unchanged")]
pub struct BrokenCursor;

impl FromStr for Cursor {
    type Err = BrokenCursor;

    fn from_str(text: &str) -> Result<Self, BrokenCursor> {
        let text = text.as_bytes();
        if text.len() != 32 {
            return Err(BrokenCursor);
        }
        let mut place = 0_u64;
        for pair in text.chunks_exact(2) {
            let digit = DIGITS
                .iter()
                .position(|digit| *digit == pair[0])
                .ok_or(BrokenCursor)?;
            if CHECKS[digit] != pair[1] {
                return Err(BrokenCursor);
            }
            place = place << 4 | digit as u64;
        }
        i64::try_from(place)
            .map(|_| Self(place))
            .map_err(|_| BrokenCursor)
    }
}

impl Cursor {
    /// The text of the cursor.
    pub fn text(self) -> [u8; 32] {
        let mut text = [0; 32];
        for (place, pair) in text.chunks_exact_mut(2).rev().enumerate() {
            let digit = (self.0 >> (place * 4) & 15) as usize;
            pair.copy_from_slice(&[DIGITS[digit], CHECKS[digit]]);
        }
        text
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

/// Which page of the animals is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PetQuery {
    /// Its size.
    pub limit: PageSize,
    /// Only animals of this status.
    pub status: Option<PetStatus>,
    /// Where it begins.
    pub cursor: Cursor,
}

/// Which page of the orders is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OrderQuery {
    /// Its size.
    pub limit: PageSize,
    /// Where it begins.
    pub cursor: Cursor,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_as_it_was_written() {
        for id in [0, 1, 0x1234_5678_9abc_def0, i64::MAX] {
            let text = Cursor::after(id).to_string();
            assert_eq!(text.parse::<Cursor>().unwrap().id(), id, "{text}");
        }
        assert_eq!(
            Cursor::after(0xf7).to_string(),
            "0g0g0g0g0g0g0g0g0g0g0g0g0g0gfv7n"
        );
    }

    #[test]
    fn every_changed_lost_or_added_character_breaks_a_cursor() {
        let text = Cursor::after(77).to_string();
        for place in 0..text.len() {
            for other in b'!'..=b'~' {
                let mut changed = text.clone().into_bytes();
                if changed[place] != other {
                    changed[place] = other;
                    assert!(
                        String::from_utf8(changed)
                            .unwrap()
                            .parse::<Cursor>()
                            .is_err()
                    );
                }
            }
        }
        assert!(text[1..].parse::<Cursor>().is_err());
        assert!(format!("{text}0").parse::<Cursor>().is_err());
        assert!("".parse::<Cursor>().is_err());
        assert!("fv".repeat(16).parse::<Cursor>().is_err(), "beyond int64");
    }

    #[test]
    fn a_page_size_is_1_to_100_in_plain_digits() {
        for (text, size) in [("1", 1), ("20", 20), ("100", 100)] {
            assert_eq!(text.parse::<PageSize>().unwrap().get(), size);
        }
        for bad in [
            "0",
            "101",
            "-1",
            "+5",
            "05",
            "5.0",
            "",
            "ten",
            "256",
            "99999999999999999999",
        ] {
            assert!(bad.parse::<PageSize>().is_err(), "{bad}");
        }
    }
}
