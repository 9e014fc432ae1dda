//! What the lock on an embedded file is for.

/// What a process has the lock for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve, until it is shut down.
    Server,
    /// To copy the database, or to write a copy to it: it may take long, but ends by itself.
    Copy,
    /// To create, migrate or replace the database, or to insert and commit the animals of an import: usually for a short time, so others
    /// wait for it.
    Command,
}

impl Purpose {
    /// Its name in the lock file.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Copy => "copy",
            Self::Command => "command",
        }
    }

    /// The purpose with this name. A server of an earlier version writes none.
    pub(super) fn from_name(name: Option<&str>) -> Self {
        match name {
            Some("copy") => Self::Copy,
            Some("command") => Self::Command,
            _ => Self::Server,
        }
    }

    /// What to do if another process has the lock.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Server => "stop it first, or choose another file with --database sqlite:PATH",
            Self::Copy => "try again when that copy has finished",
            Self::Command => "try again when that command has finished",
        }
    }
}
