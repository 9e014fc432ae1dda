//! Where the data is, as an operator writes it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::config::Host;

/// `sqlite:PATH`, or `postgres://…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// A file of our own.
    Sqlite(PathBuf),
    /// A server that several nodes share.
    Postgres(Box<tokio_postgres::Config>),
}

/// A text that names no database. What was wrong with it may hold a password, so it is not repeated.
#[derive(Debug, thiserror::Error)]
#[error(
    "takes sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME, for example sqlite:animal-store.db"
)]
pub struct NotADatabaseUrl;

impl FromStr for Database {
    type Err = NotADatabaseUrl;

    fn from_str(text: &str) -> Result<Self, NotADatabaseUrl> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("postgres" | "postgresql", _)) => match text.parse::<tokio_postgres::Config>() {
                Ok(config) if !config.get_hosts().is_empty() => Ok(Self::Postgres(config.into())),
                _ => Err(NotADatabaseUrl),
            },
            _ => Err(NotADatabaseUrl),
        }
    }
}

/// For people: the file, or the server without its password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = match self {
            Self::Sqlite(path) => return path.display().fmt(f),
            Self::Postgres(config) => config,
        };
        f.write_str("postgres://")?;
        let ports = config.get_ports();
        for (place, host) in config.get_hosts().iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                Host::Unix(path) => path.display().fmt(f)?,
            }
            if let Some(port) = ports.get(place).or(ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", config.get_dbname().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_shown_without_its_password() {
        for (text, shown) in [
            ("sqlite:a/b.db", "a/b.db"),
            (
                "postgres://me:secret@db.example/animals",
                "postgres://db.example:5432/animals",
            ),
            (
                "postgresql://me:secret@one:5433,two:5434/animals",
                "postgres://one:5433,two:5434/animals",
            ),
        ] {
            assert_eq!(text.parse::<Database>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_names_no_database_is_refused() {
        for text in [
            "",
            "sqlite:",
            "a.db",
            "mysql://x/y",
            "postgres:",
            "postgres://me:x@h:port/y",
        ] {
            assert!(text.parse::<Database>().is_err(), "{text}");
        }
    }
}
