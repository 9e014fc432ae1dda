//! The errors of PostgreSQL, and what each means: repeat the transaction at once, respond 503, or fail.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::{DbError, SqlState};

use crate::store::contract::StoreError;

/// An error of PostgreSQL.
#[derive(Debug)]
pub(super) enum PgError {
    /// The server rolled the transaction back because of others; a repetition may succeed.
    Conflict(String),
    /// Temporary: the server cannot be reached, is late, or is does not accept writes.
    Unavailable(String),
    /// Permanent: a repetition would fail, too.
    Failed(String),
}

/// The result of a statement.
pub(super) type PgResult<T> = Result<T, PgError>;

impl PgError {
    pub(super) fn late(time: Duration) -> Self {
        Self::Unavailable(format!("PostgreSQL did not respond within {time:?}"))
    }
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = chain(&error);
        match error.as_db_error().map(DbError::code) {
            None => Self::Unavailable(text),
            Some(&(SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED)) => {
                Self::Conflict(text)
            }
            // Cancelled by a timeout, read-only after a failover, shutting down, starting up, out of a resource.
            Some(code) if is_temporary(code) => Self::Unavailable(text),
            Some(_) => Self::Failed(text),
        }
    }
}

fn is_temporary(code: &SqlState) -> bool {
    let temporary = [
        SqlState::QUERY_CANCELED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
    ];
    let classes = ["08", "53", "57", "58"];
    temporary.contains(code) || classes.iter().any(|class| code.code().starts_with(class))
}

impl From<PoolError> for PgError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::from(error),
            error => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<PgError> for StoreError {
    fn from(error: PgError) -> Self {
        match error {
            PgError::Conflict(text) | PgError::Unavailable(text) => Self::Unavailable(text),
            PgError::Failed(text) => Self::Failed(text),
        }
    }
}

impl fmt::Display for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(text) | Self::Unavailable(text) | Self::Failed(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for PgError {}

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
