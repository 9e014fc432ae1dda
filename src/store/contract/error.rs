//! Failures of a store.

/// Why a store failed. The text is for the log, never for a client.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Temporary: too many creations wait, or the engine cannot be reached. A retry may succeed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// A commit was sent, but not confirmed.
    #[error("whether the change was made is unknown: {0}")]
    Unconfirmed(String),
    /// Permanent: a retry would fail, too.
    #[error("the store failed: {0}")]
    Failed(String),
}

impl StoreError {
    /// Its kind, for a span.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::Failed(_) => "failed",
        }
    }
}

pub type Result<T> = std::result::Result<T, StoreError>;
