//! The IDs of animals in a file.

use super::body::parse_int64;
use super::{PetId, PetName};

/// Where the IDs of animals in a file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdSource {
    /// From the store. Those in the file are ignored, as in the body of a request.
    New,
    /// From the file. The animals exist already, so their names need to satisfy only the rules of their time.
    Kept,
}

impl IdSource {
    /// The rules for names.
    pub(super) fn to_name(self) -> fn(String) -> Result<PetName, String> {
        match self {
            Self::New => PetName::new,
            Self::Kept => PetName::of_existing,
        }
    }

    /// The ID of a row: `Some(None)` if none is needed, and `None` if there is a problem with it.
    pub(super) fn id(
        self,
        text: Option<&str>,
        problems: &mut Vec<String>,
    ) -> Option<Option<PetId>> {
        if self == Self::New {
            return Some(None);
        }
        match text.map(parse_int64) {
            Some(Some(id @ 1..=PetId::LARGEST_KEPT)) => Some(Some(PetId(id))),
            Some(_) => {
                let max = PetId::LARGEST_KEPT;
                problems.push(format!("id must be an integer from 1 to {max}"));
                None
            }
            None => {
                problems.push("id is missing".into());
                None
            }
        }
    }
}
