//! The result of a command.

use crate::config::InvalidConfig;
use crate::new_file::NewFileError;

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

impl From<crate::keys::Error> for Failure {
    fn from(error: crate::keys::Error) -> Self {
        anyhow::Error::from(error).into()
    }
}

pub(super) type Outcome = Result<(), Failure>;
