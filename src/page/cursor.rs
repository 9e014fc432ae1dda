//! The beginning of a page, and its text, which is bound to the list that it was made for.

use std::fmt;
use std::str::FromStr;

use crate::pet::PetStatus;

/// A position in a list: after the row with this ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor(u64);

impl Cursor {
    /// The position after the row with this ID. No ID is negative, so a list begins after zero.
    pub const fn after(id: i64) -> Self {
        Self(if id < 0 { 0 } else { id.unsigned_abs() })
    }

    /// The ID after which the page begins.
    pub const fn id(self) -> i64 {
        // At most `i64::MAX`, as `after` and `BoundCursor::from_str` make it: this never wraps.
        self.0.cast_signed()
    }

    /// The cursor in the form that clients see.
    pub const fn bound_to(self, scope: Scope) -> BoundCursor {
        BoundCursor {
            scope,
            cursor: self,
        }
    }
}

/// The list that a cursor belongs to: a collection, and its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The animals, or those of one status.
    Pets(Option<PetStatus>),
    Orders,
}

impl Scope {
    const ALL: [Self; 5] = [
        Self::Pets(None),
        Self::Pets(Some(PetStatus::Available)),
        Self::Pets(Some(PetStatus::Pending)),
        Self::Pets(Some(PetStatus::Sold)),
        Self::Orders,
    ];

    /// The beginning of its cursors. No two share a letter at the same position, so that one changed character is detected here too.
    const fn code(self) -> [u8; 2] {
        *match self {
            Self::Pets(None) => b"pz",
            Self::Pets(Some(PetStatus::Available)) => b"ay",
            Self::Pets(Some(PetStatus::Pending)) => b"nx",
            Self::Pets(Some(PetStatus::Sold)) => b"sw",
            Self::Orders => b"ov",
        }
    }
}

/// A cursor with its scope, as it appears in a `Link`.
///
/// As text it is the code of its scope, and then the ID in sixteen hex digits, each followed by its check letter (`0g`,
/// `1h`, … `fv`). A lost, added or changed character is detected, and yet a regular expression in the OpenAPI
/// document describes exactly which cursors are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundCursor {
    scope: Scope,
    cursor: Cursor,
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";
const CHECK_LETTERS: &[u8; 16] = b"ghijklmnopqrstuv";

/// The length of a cursor's text in bytes.
const TEXT_LENGTH: usize = 34;

/// Why a cursor is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorError {
    /// It is not as this service writes them.
    Malformed,
    /// It belongs to another list, or to another status filter.
    WrongScope,
}

impl BoundCursor {
    /// The position, if it is in this list.
    pub fn within(self, scope: Scope) -> Result<Cursor, CursorError> {
        if self.scope == scope {
            Ok(self.cursor)
        } else {
            Err(CursorError::WrongScope)
        }
    }

    pub fn text(self) -> [u8; TEXT_LENGTH] {
        let mut text = [0; TEXT_LENGTH];
        let (code, pairs) = text.split_at_mut(2);
        code.copy_from_slice(&self.scope.code());
        for (index, pair) in pairs.chunks_exact_mut(2).rev().enumerate() {
            let digit = (self.cursor.0 >> (index * 4) & 15) as usize;
            pair.copy_from_slice(&[DIGITS[digit], CHECK_LETTERS[digit]]);
        }
        text
    }
}

impl FromStr for BoundCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let text: &[u8; TEXT_LENGTH] = text
            .as_bytes()
            .try_into()
            .map_err(|_| CursorError::Malformed)?;
        let (code, pairs) = text.split_at(2);
        let scope = Scope::ALL
            .into_iter()
            .find(|scope| scope.code() == *code)
            .ok_or(CursorError::Malformed)?;
        let mut id = 0_u64;
        for pair in pairs.chunks_exact(2) {
            let digit = DIGITS
                .iter()
                .position(|digit| *digit == pair[0])
                .ok_or(CursorError::Malformed)?;
            if CHECK_LETTERS[digit] != pair[1] {
                return Err(CursorError::Malformed);
            }
            id = id << 4 | digit as u64;
        }
        if i64::try_from(id).is_err() {
            return Err(CursorError::Malformed);
        }
        Ok(Cursor(id).bound_to(scope))
    }
}

impl fmt::Display for BoundCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_as_it_was_written_and_only_in_its_own_list() {
        for scope in Scope::ALL {
            for id in [0, 1, 0x1234_5678_9abc_def0, i64::MAX] {
                let text = Cursor::after(id).bound_to(scope).to_string();
                let read: BoundCursor = text.parse().unwrap();
                for other in Scope::ALL {
                    let expected = if other == scope {
                        Ok(Cursor::after(id))
                    } else {
                        Err(CursorError::WrongScope)
                    };
                    assert_eq!(read.within(other), expected, "{text}");
                }
            }
        }
        assert_eq!(
            Cursor::after(0xf7).bound_to(Scope::Pets(None)).to_string(),
            "pz0g0g0g0g0g0g0g0g0g0g0g0g0g0gfv7n"
        );
    }

    #[test]
    fn every_changed_lost_or_added_character_breaks_a_cursor() {
        let is_broken = |text: &str| text.parse::<BoundCursor>().is_err();
        for scope in Scope::ALL {
            let text = Cursor::after(77).bound_to(scope).to_string();
            for index in 0..text.len() {
                for other in b'!'..=b'~' {
                    let mut changed = text.clone().into_bytes();
                    if changed[index] != other {
                        changed[index] = other;
                        assert!(is_broken(&String::from_utf8(changed).unwrap()));
                    }
                }
            }
            assert!(is_broken(&text[1..]) && is_broken(&text[2..]));
            assert!(is_broken(&format!("{text}0")));
        }
        assert!(is_broken(""));
        assert!(is_broken(&format!("pz{}", "fv".repeat(16))), "beyond int64");
    }

    #[test]
    fn a_list_begins_after_the_id_of_its_cursor_and_a_negative_one_is_the_beginning() {
        for id in [0, 1, 7, i64::MAX] {
            assert_eq!(Cursor::after(id).id(), id);
        }
        for id in [-1, i64::MIN] {
            assert_eq!(Cursor::after(id), Cursor::default());
        }
    }
}
