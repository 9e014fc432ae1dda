//! What the lock on an embedded file is for.

/// What a process has the lock for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve, until it is shut down.
    Server,
    /// To create, migrate or replace the database: it ends by itself.
    Command,
}

impl Purpose {
    /// What to do if another process has the lock.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Server => "stop it first, or choose another file with --database sqlite:PATH",
            Self::Command => "try again when that command has ended",
        }
    }
}
