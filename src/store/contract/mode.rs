//! The purpose for which a database is opened, the same for every engine.

/// The access to a database, and whether it may be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads only. Creates nothing, migrates nothing, writes nothing.
    ReadOnly,
    /// Reads and writes a database that exists and has the format of this version.
    ReadWrite,
    /// Creates a missing database, and brings an older one to the format of this version.
    Migrate,
    /// Serves requests: the one server of an embedded file. A missing database is created and an older one is migrated, unless
    /// the operator migrates.
    Serve {
        /// Whether this server may migrate.
        migrate: bool,
    },
}

impl Mode {
    /// Whether a missing database is created, and an older one is brought to the format of this version.
    pub fn migrates(self) -> bool {
        matches!(self, Self::Migrate | Self::Serve { migrate: true })
    }

    /// Whether requests are served from it.
    pub(crate) fn serves(self) -> bool {
        matches!(self, Self::Serve { .. })
    }
}
