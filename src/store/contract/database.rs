//! The URL of a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::postgres_url::{MALFORMED, PostgresUrl};
use crate::tls::Verification;

/// `sqlite:PATH`, or `postgres://…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// An embedded file.
    Sqlite(PathBuf),
    /// A server that several nodes share; or several, of which one accepts writes.
    Postgres(PostgresUrl),
}

impl FromStr for Database {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) => Ok(Self::Sqlite(sqlite_path(path)?)),
            Some(("postgres" | "postgresql", _)) => text.parse().map(Self::Postgres),
            _ => Err(MALFORMED.into()),
        }
    }
}

/// The path in `sqlite:PATH`. What other programs use as a URL, and would be the name of an unexpected file here, is rejected.
fn sqlite_path(path: &str) -> Result<PathBuf, &'static str> {
    match path {
        "" => Err(MALFORMED),
        _ if path.starts_with("//") && !path.starts_with("///") => {
            Err("write sqlite:x.db for a file in the current folder, or sqlite:///absolute/path")
        }
        _ if path.starts_with(":memory:") => Err(
            "a database in memory would be lost when the process ends: specify a file, as in sqlite:x.db",
        ),
        _ if path.starts_with("file:") => {
            Err("a sqlite: URL has a path, not a URI: write sqlite:x.db")
        }
        _ if path.contains('?') => {
            Err("a sqlite: URL has no parameters after ?: write sqlite:x.db")
        }
        _ => Ok(path.into()),
    }
}

impl Database {
    pub(crate) fn has_password(&self) -> bool {
        matches!(self, Self::Postgres(url) if url.has_password())
    }

    /// Whether it is a URL of PostgreSQL without a password, so that one can be set.
    pub(crate) fn lacks_password(&self) -> bool {
        matches!(self, Self::Postgres(url) if !url.has_password())
    }

    /// Whether the certificate of the server is verified.
    pub(crate) fn verifies(&self) -> bool {
        matches!(self, Self::Postgres(url) if url.verification() != Verification::None)
    }

    /// Verifies the certificate of PostgreSQL with the CAs in this file, unless the URL names another.
    pub(crate) fn set_default_ca(&mut self, path: &Path) {
        if let Self::Postgres(url) = self {
            url.files.set_default_ca(path);
        }
    }
}

/// For people: the file, or the servers without the password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(url) => url.fmt(f),
        }
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
    fn an_invalid_url_is_rejected() {
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

    #[test]
    fn a_url_that_would_mean_something_else_is_rejected_with_what_to_write() {
        for (text, part) in [
            ("postgres://me:p@ss@h/y", "encode @ in a password as %40"),
            ("postgres://me:1/pass@h/y", "and / as %2F"),
            ("sqlite://x.db", "write sqlite:x.db for a file"),
            ("sqlite://", "write sqlite:x.db for a file"),
            ("sqlite::memory:", "specify a file, as in sqlite:x.db"),
            ("sqlite:x.db?mode=memory", "write sqlite:x.db"),
            ("sqlite:file:x.db", "write sqlite:x.db"),
            ("sqlite:file:x.db?mode=ro", "not a URI"),
        ] {
            let error = text.parse::<Database>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for text in [
            "sqlite:///tmp/x.db",
            "sqlite:/tmp/x.db",
            "sqlite:a/b.db",
            "sqlite:./file:x.db",
            "postgres://me:p%40ss@h/y",
            "postgres://me@h/y?application_name=a@b",
            "postgres://me@%2Frun%2Fpg/shop",
        ] {
            assert!(text.parse::<Database>().is_ok(), "{text}");
        }
    }
}
