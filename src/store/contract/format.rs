//! The mode in which a database is opened, and its format (schema version), which has to be that of this version.

use super::database::Database;

/// The access to a database, and whether it may be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads only. Creates nothing, migrates nothing, writes nothing.
    ReadOnly,
    /// Reads and writes a database that exists and has the format of this version.
    ReadWrite,
    /// Like `ReadWrite`, but first creates a missing database, or brings an older one to the format of this version.
    Migrate,
    /// Serves requests: the one server of an embedded file. A missing database is created and an older one is migrated, unless
    /// `--no-migrate` is set.
    Serve { migrate: bool },
    /// Copies a database, or writes a copy to it: no server may use it meanwhile.
    Copy {
        /// Whether a missing one is created: only the target is. Neither is migrated, because a migration would stay even
        /// if the copy is rejected.
        create: bool,
    },
}

impl Mode {
    /// Whether a missing database is created.
    pub fn creates(self) -> bool {
        match self {
            Self::ReadOnly | Self::ReadWrite => false,
            Self::Migrate => true,
            Self::Serve { migrate } => migrate,
            Self::Copy { create } => create,
        }
    }

    /// Whether an older database is brought to the format of this version.
    fn migrates(self) -> bool {
        self.creates() && !matches!(self, Self::Copy { .. })
    }

    pub(crate) fn serves(self) -> bool {
        matches!(self, Self::Serve { .. })
    }
}

/// The format of a database before and after it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatChange {
    /// The format before; none if there was no database.
    pub before: Option<i64>,
    pub after: i64,
}

impl FormatChange {
    pub fn created(&self) -> bool {
        self.before.is_none()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// The node may continue.
    Alive,
    /// It counted as dead, and a newer version has migrated the database to a format that it does not know.
    Superseded { format: i64 },
}

/// Why a database cannot be used as it is.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongFormat(String);

impl WrongFormat {
    /// Rejects a format that cannot be used in this mode. `found` is none if there is no database.
    pub(crate) fn check(
        database: &Database,
        found: Option<i64>,
        known: i64,
        mode: Mode,
    ) -> Result<(), Self> {
        let migrate = match database {
            Database::Sqlite(path) => {
                format!(
                    "run `animal-store migrate --database sqlite:{}`",
                    path.display()
                )
            }
            // The URL may contain a password.
            Database::Postgres(_) => "run `animal-store migrate` with its URL as --database".into(),
        };
        match found {
            Some(found) if found > known => Err(Self(format!(
                "{database} has format {found}, and this version supports formats up to {known}: use a newer animal-store"
            ))),
            None if !mode.creates() => {
                let advice = match mode {
                    Mode::Copy { .. } => "specify one that exists".into(),
                    Mode::Serve { .. } => {
                        format!("{migrate}, or start the server without --no-migrate, to create it")
                    }
                    _ => format!("{migrate}, or start the server, to create it"),
                };
                Err(Self(format!(
                    "there is no database at {database}: {advice}"
                )))
            }
            Some(found) if found < known && !mode.migrates() => Err(Self(format!(
                "{database} has format {found}, and this version needs format {known}: {migrate}"
            ))),
            _ => Ok(()),
        }
    }
}
