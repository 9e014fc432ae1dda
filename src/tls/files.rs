//! The files of a TLS client, as named by options and by the parameters of a URL. They have libpq's names in the URLs of both
//! PostgreSQL and Redis.

use std::fmt;
use std::path::{Path, PathBuf};

/// The CAs that sign the certificates of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// Those that the system trusts.
    #[default]
    System,
    /// Those in a PEM file.
    File(PathBuf),
}

/// The expected issuer of a certificate, as in `a CA in ca.pem`.
impl fmt::Display for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("a CA that this system trusts"),
            Self::File(path) => write!(f, "a CA in {}", path.display()),
        }
    }
}

/// The files for connections to one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// None if neither the URL nor an option has chosen.
    pub(crate) roots: Option<Roots>,
    /// The certificate of the client, and its key.
    pub(crate) pair: Option<(PathBuf, PathBuf)>,
}

impl ClientFiles {
    /// The parameters that name files.
    pub(crate) const PARAMETERS: [&'static str; 3] = ["sslrootcert", "sslcert", "sslkey"];

    /// The files that the values of [`PARAMETERS`](Self::PARAMETERS) name, unless they conflict.
    pub(crate) fn from_parameters([roots, cert, key]: [Option<String>; 3]) -> Result<Self, String> {
        let values = [&roots, &cert, &key].into_iter().zip(Self::PARAMETERS);
        for (value, name) in values {
            if value.as_ref().is_some_and(String::is_empty) {
                return Err(format!("{name} must not be empty"));
            }
        }
        Ok(Self {
            roots: roots.map(|value| match &*value {
                "system" => Roots::System,
                path => Roots::File(path.into()),
            }),
            pair: match (cert, key) {
                (Some(cert), Some(key)) => Some((cert.into(), key.into())),
                (None, None) => None,
                (Some(_), None) => return Err("sslcert requires sslkey".into()),
                (None, Some(_)) => return Err("sslkey requires sslcert".into()),
            },
        })
    }

    /// Uses the CAs in this file, unless the URL names others.
    pub(crate) fn set_default_ca(&mut self, path: &Path) {
        self.roots.get_or_insert_with(|| Roots::File(path.into()));
    }
}
