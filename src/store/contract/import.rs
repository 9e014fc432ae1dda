//! The import of many animals: they are staged where no reader sees them, and become visible together.

use std::fmt;

use super::error::StoreError;
use crate::pet::{PetId, PetRow};

#[derive(Clone, Debug)]
pub struct ImportRow {
    pub line: u64,
    /// The animal, with an ID if animals keep theirs.
    pub row: PetRow,
}

/// A row whose ID is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportConflict {
    pub line: u64,
    pub id: PetId,
    /// What has it already.
    pub with: TakenBy,
}

/// What has the ID of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBy {
    Line,
    Pet,
}

impl fmt::Display for ImportConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.with {
            TakenBy::Line => "given twice in the file",
            TakenBy::Pet => "already used by an existing animal",
        };
        write!(f, "id {} is {by}", self.id)
    }
}

/// Why an import failed. Nothing was imported, unless the error says that the outcome is unknown.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An animal with one of these IDs was added after the check.
    #[error(
        "an animal with {} was added in the meantime: nothing was imported; import the file again",
        .0.map_or("one of these IDs".to_owned(), |id| format!("ID {id}"))
    )]
    Taken(
        /// The smallest of them, if it is still there.
        Option<PetId>,
    ),
    /// The connection was lost, or a sync failed, during the commit.
    #[error(
        "{0}; whether the animals were imported is unknown: look for them before you import them again"
    )]
    Unconfirmed(String),
}
