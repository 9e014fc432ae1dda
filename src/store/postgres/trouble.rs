//! What can go wrong between us and PostgreSQL, and what that means: try again at once, tell the caller to come back, or fail.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::{DbError, SqlState};

use crate::store::StoreError;

/// How long anything may take, in all. With a second to connect within it, a caller has its answer within 2.5 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Something went wrong.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server took the transaction back because of others; the same again may pass.
    Again(String),
    /// Not now: it cannot be reached, is late, or is not the one that takes writes.
    Away(String),
    /// It would fail again.
    Failed(String),
}

impl Trouble {
    pub(super) fn late(time: Duration) -> Self {
        Self::Away(format!("PostgreSQL did not answer within {time:?}"))
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = chain(&error);
        match error.as_db_error().map(DbError::code) {
            None => Self::Away(text),
            Some(&(SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED)) => {
                Self::Again(text)
            }
            // Cancelled by one of our time-outs, read-only after a fail-over, shutting down, starting up, out of something.
            Some(code) if is_passing(code) => Self::Away(text),
            Some(_) => Self::Failed(text),
        }
    }
}

fn is_passing(code: &SqlState) -> bool {
    let passing = [
        SqlState::QUERY_CANCELED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
    ];
    let classes = ["08", "53", "57", "58"];
    passing.contains(code) || classes.iter().any(|class| code.code().starts_with(class))
}

impl From<PoolError> for Trouble {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::from(error),
            error => Self::Away(error.to_string()),
        }
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Again(text) | Trouble::Away(text) => Self::Unavailable(text),
            Trouble::Failed(text) => Self::Failed(text),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again(text) | Self::Away(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Trouble {}

/// An error and its causes in one line: the outermost alone says only "db error".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
