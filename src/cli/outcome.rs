//! The result of a command.

use crate::config::InvalidConfig;
use crate::keys::{self, KeyRejection};
use crate::new_file::NewFileError;
use crate::order::action::ActionRejection;

/// Why a command failed.
pub(super) enum Failure {
    /// A usage error, for exit code 2.
    Usage(String),
    /// A failure, for exit code 1.
    Failed(String),
    /// The reader of standard output has closed it. The command ends quietly, with exit code 0.
    BrokenPipe,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

impl From<InvalidConfig> for Failure {
    fn from(error: InvalidConfig) -> Self {
        match error {
            InvalidConfig::File { .. } => Self::Failed(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}

/// It is a usage error if another name, or `--force`, would help.
impl From<NewFileError> for Failure {
    fn from(error: NewFileError) -> Self {
        match error {
            NewFileError::Failed(..) | NewFileError::Unsynced(..) => {
                Self::Failed(error.to_string())
            }
            _ => Self::Usage(error.to_string()),
        }
    }
}

/// With the command that helps.
impl From<ActionRejection> for Failure {
    fn from(rejection: ActionRejection) -> Self {
        Self::Failed(match rejection {
            ActionRejection::UnknownPet(_) => {
                format!("{rejection}: run `animal-store pets list` to see all animals")
            }
            ActionRejection::UnknownOrder(_) => {
                format!("{rejection}: run `animal-store orders list` to see all orders")
            }
            ActionRejection::OpenOrder(order) => format!(
                "{rejection}: run `animal-store orders complete {id}` or `animal-store orders cancel {id}`, or use --force, which cancels it",
                id = order.id
            ),
            _ => rejection.to_string(),
        })
    }
}

/// With the command that helps.
impl From<keys::Error> for Failure {
    fn from(error: keys::Error) -> Self {
        match error {
            keys::Error::Rejected(KeyRejection::Unknown(_)) => Self::Failed(format!(
                "{error}: run `animal-store keys list` to see all keys"
            )),
            _ => anyhow::Error::from(error).into(),
        }
    }
}

pub(super) type Outcome = Result<(), Failure>;
