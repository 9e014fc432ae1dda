//! The format of a database, and what to do if it is not that of this version.

use std::fmt;

use super::mode::Mode;

/// The format of a database before and after it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The format before; none if there was no database.
    pub before: Option<i64>,
    /// The format now.
    pub now: i64,
}

impl Migration {
    /// Whether the database is new.
    pub fn is_new(&self) -> bool {
        self.before.is_none()
    }
}

/// Why a database cannot be used as it is.
#[derive(Debug, thiserror::Error)]
pub enum WrongFormat {
    /// There is no database.
    #[error(
        "there is no database at {0}: run `animal-store migrate` or start the server to create it"
    )]
    Missing(String),
    /// It has the format of an older version.
    #[error(
        "{database} has format {found}, and this version needs format {needed}: run `animal-store migrate`"
    )]
    Older {
        /// The database.
        database: String,
        /// Its format.
        found: i64,
        /// The format of this version.
        needed: i64,
    },
    /// It has the format of a newer version.
    #[error(
        "{database} has format {found}, and this version knows formats up to {known}: use a newer animal-store"
    )]
    Newer {
        /// The database.
        database: String,
        /// Its format.
        found: i64,
        /// The format of this version.
        known: i64,
    },
}

impl WrongFormat {
    /// Rejects a format that cannot be used in this mode. `found` is none if there is no database.
    pub(crate) fn check(
        database: &dyn fmt::Display,
        found: Option<i64>,
        known: i64,
        mode: Mode,
    ) -> Result<(), Self> {
        match found {
            Some(found) if found > known => Err(Self::Newer {
                database: database.to_string(),
                found,
                known,
            }),
            _ if mode.migrates() => Ok(()),
            None => Err(Self::Missing(database.to_string())),
            Some(found) if found < known => Err(Self::Older {
                database: database.to_string(),
                found,
                needed: known,
            }),
            Some(_) => Ok(()),
        }
    }
}
