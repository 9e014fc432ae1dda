//! What the lock on an embedded file is for.

use crate::names::named;

named! {
    /// What a process has the lock for, with its name in the lock file.
    pub(crate) enum Purpose {
        /// To serve, until it is shut down.
        Server = "server",
        /// To copy the database, or to write a copy to it: it may take long, but ends by itself.
        Copy = "copy",
        /// To create, migrate or replace the database, or to insert and commit the animals of an import: usually for a short time, so
        /// others wait for it.
        Command = "command",
    }
}

impl Purpose {
    /// What to do if another process has the lock.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Server => "stop it first, or choose another file with --database sqlite:PATH",
            Self::Copy => "try again when that copy has finished",
            Self::Command => "try again when that command has finished",
        }
    }
}
