//! The errors of PostgreSQL, and what each leads to: an immediate retry, a 503 or a 500.

use deadpool::managed::PoolError;
use tokio_postgres::error::{DbError, SqlState};

use crate::store::contract::StoreError;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) enum PgError {
    /// The server rolled the transaction back because of a concurrent one. A retry may succeed.
    Conflict(String),
    /// Temporary: the server cannot be reached, is late, or does not accept writes.
    Unavailable(String),
    /// The server's disk is full. Temporary, but small writes may succeed meanwhile.
    DiskFull(String),
    /// The server ended the statement, because it or its wait for a lock took too long. The connection is as good as before.
    Cancelled(String),
    /// A commit was sent, but not confirmed: it may have succeeded.
    Unconfirmed(String),
    /// A unique constraint was violated. Permanent.
    UniqueViolation(String),
    /// The role lacks a privilege. Permanent.
    Denied(String),
    /// Permanent: a retry would fail, too.
    Failed(String),
}

pub(crate) type PgResult<T> = Result<T, PgError>;

/// Whether the connection can be used again after this result of a read. One that may have caused an error cannot.
pub(super) fn keeps_connection<T>(result: &PgResult<T>) -> bool {
    matches!(
        result,
        Ok(_) | Err(PgError::Cancelled(_) | PgError::Conflict(_))
    )
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        let code = error.as_db_error().map(DbError::code).cloned();
        // With its causes: the error itself says only "db error".
        let text = format!("PostgreSQL: {:#}", anyhow::Error::new(error));
        Self::of(code.as_ref(), text)
    }
}

impl PgError {
    /// The error of an attempt to connect to this server. `explained` replaces its text if TLS has caused it. After a
    /// first successful connection, every error counts as temporary: a login or a database that is rejected now was accepted before.
    pub(super) fn connecting(
        host: &str,
        error: tokio_postgres::Error,
        explained: Option<String>,
        has_connected: bool,
    ) -> Self {
        let code = error.as_db_error().map(DbError::code).cloned();
        let cause = explained.unwrap_or_else(|| format!("{:#}", anyhow::Error::new(error)));
        let text = format!("PostgreSQL at {host}: {cause}");
        match has_connected {
            true => Self::Unavailable(text),
            false => Self::of(code.as_ref(), text),
        }
    }

    /// The same error of a commit that was sent: unless the error excludes that, it may have succeeded.
    pub(super) fn of_commit(self) -> Self {
        match self {
            Self::Unavailable(text) | Self::DiskFull(text) | Self::Cancelled(text) => {
                Self::Unconfirmed(text)
            }
            error => error,
        }
    }

    fn of(code: Option<&SqlState>, text: String) -> Self {
        match code {
            None => Self::Unavailable(text),
            Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => {
                Self::Conflict(text)
            }
            Some(&SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE) => {
                Self::Cancelled(text)
            }
            Some(&SqlState::UNIQUE_VIOLATION) => Self::UniqueViolation(text),
            Some(&SqlState::DISK_FULL) => Self::DiskFull(text),
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Self::Denied(text),
            Some(code) if is_temporary(code) => Self::Unavailable(text),
            Some(_) => Self::Failed(text),
        }
    }
}

/// Read-only after a failover, shutting down, starting up, or out of a resource.
fn is_temporary(code: &SqlState) -> bool {
    let temporary = [
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
    ];
    let classes = ["08", "53", "57", "58"];
    temporary.contains(code) || classes.iter().any(|class| code.code().starts_with(class))
}

impl From<PoolError<PgError>> for PgError {
    fn from(error: PoolError<PgError>) -> Self {
        match error {
            PoolError::Backend(error) => error,
            error => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<PgError> for StoreError {
    fn from(error: PgError) -> Self {
        match error {
            PgError::Conflict(text)
            | PgError::Unavailable(text)
            | PgError::DiskFull(text)
            | PgError::Cancelled(text) => Self::Unavailable(text),
            PgError::Unconfirmed(text) => Self::Unconfirmed(text),
            PgError::UniqueViolation(text) | PgError::Denied(text) | PgError::Failed(text) => {
                Self::Failed(text)
            }
        }
    }
}
