//! Pages of a list: their beginning, size and filter.

mod cursor;

pub use cursor::{BoundCursor, Cursor, CursorError, Scope};

use std::str::FromStr;

use crate::pet::PetStatus;

/// The maximum number of rows in a page: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageSize(u8);

impl PageSize {
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self(20)
    }
}

impl FromStr for PageSize {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.parse() {
            Ok(size @ 1..=100) if text == size.to_string() => Ok(Self(size)),
            _ => Err("must be an integer from 1 to 100, without a sign or leading zeros"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PetQuery {
    pub limit: PageSize,
    /// Only animals with this status.
    pub status: Option<PetStatus>,
    pub cursor: Cursor,
}

impl PetQuery {
    pub const fn scope(&self) -> Scope {
        Scope::Pets(self.status)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OrderQuery {
    pub limit: PageSize,
    pub cursor: Cursor,
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_page_has_20_rows_by_default() {
        assert_eq!(PetQuery::default().limit.get(), 20);
        assert_eq!(OrderQuery::default().limit.get(), 20);
    }

    #[test]
    fn the_scope_of_a_query_is_that_of_its_status() {
        let status = Some(PetStatus::Sold);
        let sold = PetQuery {
            status,
            ..PetQuery::default()
        };
        assert_eq!(sold.scope(), Scope::Pets(status));
        assert_eq!(PetQuery::default().scope(), Scope::Pets(None));
    }
}
