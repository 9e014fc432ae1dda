//! The URL of PostgreSQL. Its parameters for TLS have libpq's names and meaning; tokio-postgres knows only some of them.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::hosts;
use crate::tls::{ClientFiles, Roots, Verification};

/// `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresUrl {
    servers: Vec<Config>,
    pub(crate) mode: SslMode,
    pub(crate) files: ClientFiles,
}

/// When a connection is encrypted, and what is verified then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SslMode {
    Disable,
    /// Encrypted if the server supports it.
    Prefer,
    Require,
    /// Encrypted, to a server whose certificate a CA has signed.
    VerifyCa,
    /// The same, and the certificate is for the host of the URL.
    VerifyFull,
}

/// The problem with a URL, which is not repeated: it may hold a password.
pub(super) const MALFORMED: &str = "must be sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME, for example sqlite:animal-store.db";

impl PostgresUrl {
    pub fn servers(&self) -> &[Config] {
        &self.servers
    }

    /// The host of one of the servers, for people.
    pub(crate) fn host(server: &Config) -> String {
        match server.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        }
    }

    pub(crate) fn has_password(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| server.get_password().is_some())
    }

    pub(crate) fn set_password(&mut self, password: &str) {
        for server in &mut self.servers {
            server.password(password);
        }
    }

    /// Rejects `verify-ca` without a CA file, as libpq does: that mode does not check the host name, so a certificate from any public
    /// CA would pass. Not when the URL is parsed, because `--ca-cert` may name the file.
    pub(crate) fn check_roots(&self) -> Result<(), &'static str> {
        match (self.verification(), &self.files.roots) {
            (Verification::Chain, None) => Err(
                "sslmode=verify-ca requires --ca-cert FILE or sslrootcert=FILE: to use the CAs that the system trusts, set sslmode=verify-full",
            ),
            _ => Ok(()),
        }
    }

    pub(crate) fn verification(&self) -> Verification {
        let is_local = |server: &Config| matches!(server.get_hosts(), [Host::Unix(_)]);
        match self.mode {
            // Unix sockets are never encrypted.
            _ if self.servers.iter().all(is_local) => Verification::None,
            SslMode::Disable | SslMode::Prefer => Verification::None,
            // So that a CA that was given is not ignored; as in libpq.
            SslMode::Require if self.files.roots.is_some() => Verification::Chain,
            SslMode::Require => Verification::None,
            SslMode::VerifyCa => Verification::Chain,
            SslMode::VerifyFull => Verification::Full,
        }
    }
}

impl FromStr for PostgresUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // tokio-postgres ends a password that is not encoded at its first @, and takes the rest for the host, which then appears in
        // errors and in DNS queries.
        let start = text.split('?').next().unwrap_or_default();
        let is_late = |at: usize| start[..at].matches('/').count() > 2;
        if start.matches('@').count() > 1 || start.find('@').is_some_and(is_late) {
            return Err("encode @ in a password as %40, and / as %2F".into());
        }
        let scheme = text.split(':').next().unwrap_or_default();
        let [roots, cert, key] = ClientFiles::PARAMETERS;
        let taken = hosts::take_parameters(text, ["sslmode", roots, cert, key]);
        let Some((url, [mode, roots, cert, key])) = taken else {
            return Err(MALFORMED.into());
        };
        let files = ClientFiles::from_parameters([roots, cert, key])?;
        let mode = match (mode.as_deref(), &files.roots) {
            (Some(mode), _) => ValueEnum::from_str(mode, false).map_err(
                |_| "sslmode must be disable, prefer, require, verify-ca or verify-full",
            )?,
            // Naming the CAs of the system means that they are used.
            (None, Some(Roots::System)) => SslMode::VerifyFull,
            (None, _) => SslMode::Prefer,
        };
        if files.roots == Some(Roots::System) && mode != SslMode::VerifyFull {
            // Every public CA could sign a certificate for another server.
            return Err("sslrootcert=system requires sslmode=verify-full".into());
        }
        let (urls, _) = hosts::split_url(scheme, &url).ok_or(MALFORMED)?;
        let server = |url: &String| match url.parse::<Config>() {
            Ok(mut config) if config.get_hosts().len() == 1 => {
                config.ssl_mode(mode.requested_of(config.get_hosts()));
                Ok(config)
            }
            Ok(_) => Err(MALFORMED.to_owned()),
            Err(error) => Err(problem(&error)),
        };
        Ok(Self {
            servers: urls.iter().map(server).collect::<Result<_, _>>()?,
            mode,
            files,
        })
    }
}

/// Why tokio-postgres rejects a URL. The name of an unknown parameter may be a part of a password.
fn problem(error: &tokio_postgres::Error) -> String {
    let cause = error.source().map(ToString::to_string);
    let cause = cause.unwrap_or_default();
    match cause.strip_prefix("invalid value for option ") {
        Some(name) => format!("the {} is invalid", name.trim_matches('`')),
        None if cause.starts_with("unknown option") => {
            "it has an unknown parameter after the ?".into()
        }
        None => MALFORMED.into(),
    }
}

/// For people: the servers, without the password.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = |server: &Config| match server.get_ports().first() {
            Some(port) => format!("{}:{port}", Self::host(server)),
            None => Self::host(server),
        };
        let servers: Vec<String> = self.servers.iter().map(server).collect();
        let servers = servers.join(",");
        let name = self.servers.first().and_then(Config::get_dbname);
        write!(f, "postgres://{servers}/{}", name.unwrap_or_default())
    }
}

impl SslMode {
    /// What tokio-postgres does for this mode. Unix sockets are never encrypted.
    fn requested_of(self, hosts: &[Host]) -> tokio_postgres::config::SslMode {
        use tokio_postgres::config::SslMode as Requested;
        match (self, hosts) {
            (_, [Host::Unix(_)]) | (Self::Disable, _) => Requested::Disable,
            (Self::Prefer, _) => Requested::Prefer,
            (Self::Require | Self::VerifyCa | Self::VerifyFull, _) => Requested::Require,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(parameters: &str) -> Result<PostgresUrl, String> {
        format!("postgres://me@db/shop?connect_timeout=3{parameters}").parse()
    }

    #[test]
    fn each_mode_verifies_what_it_does_in_libpq() {
        for (parameters, verification) in [
            ("", Verification::None),
            ("&sslmode=disable", Verification::None),
            ("&sslmode=prefer", Verification::None),
            ("&sslmode=prefer&sslrootcert=ca.pem", Verification::None),
            ("&sslmode=require", Verification::None),
            ("&sslmode=require&sslrootcert=ca.pem", Verification::Chain),
            ("&sslmode=verify-ca", Verification::Chain),
            ("&sslmode=verify-full", Verification::Full),
            ("&sslrootcert=system", Verification::Full),
        ] {
            let url = parse(parameters).expect(parameters);
            assert_eq!(url.verification(), verification, "{parameters}");
            let timeout = url.servers()[0].get_connect_timeout();
            assert_eq!(timeout, Some(&std::time::Duration::from_secs(3)));
        }
    }

    #[test]
    fn nothing_is_verified_on_a_unix_socket() {
        let url: PostgresUrl = "postgres://me@%2Frun%2Fpostgresql/shop?sslmode=verify-ca"
            .parse()
            .unwrap();
        assert_eq!(url.verification(), Verification::None);
    }

    #[test]
    fn parameters_that_conflict_are_rejected() {
        for (parameters, message) in [
            ("&sslmode=allow", "sslmode must be"),
            ("&sslmode=", "sslmode must be"),
            ("&sslcert=a.pem", "sslcert requires sslkey"),
            ("&sslkey=a.pem", "sslkey requires sslcert"),
            ("&sslrootcert=", "sslrootcert must not be empty"),
            (
                "&sslrootcert=system&sslmode=require",
                "requires sslmode=verify-full",
            ),
            ("&sslmode=require&sslmode=disable", "must be sqlite:PATH"),
            ("&foo=1", "an unknown parameter after the ?"),
            ("&tcp_user_timeout=1s", "the tcp_user_timeout is invalid"),
        ] {
            let error = parse(parameters).expect_err(parameters);
            assert!(error.contains(message), "{parameters}: {error}");
        }
    }

    #[test]
    fn a_socket_of_this_machine_is_not_encrypted() {
        use tokio_postgres::config::SslMode as Requested;
        let url: PostgresUrl = "postgres://me@%2Frun%2Fpg/shop?sslmode=require"
            .parse()
            .unwrap();
        assert_eq!(url.servers()[0].get_ssl_mode(), Requested::Disable);
    }
}
