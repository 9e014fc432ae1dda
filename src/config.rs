//! The configuration of a server: from the command line, the environment and a file to one validated [`Config`]. Flags override the
//! environment, the environment the file, the file the defaults.

pub(crate) mod duration;
pub(crate) mod file;
pub(crate) mod options;
pub(crate) mod usage_error;

pub(crate) use options::{ConfigFileOption, DatabaseOptions, ServeOptions};

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::access::TrustedProxies;
use crate::api::cors::Cors;
use crate::api::url::BaseUrl;
use crate::files::InvalidFile;
use crate::limit::{BanPolicy, RedisUrl};
use crate::log::{LogFormat, LogLevel};
use crate::store::Database;

/// The token for the admin listener. Only its hash is kept, so that it can neither be printed nor guessed by timing.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    pub(crate) fn matches(&self, token: &[u8]) -> bool {
        self.0 == <[u8; 32]>::from(Sha256::digest(token))
    }
}

impl FromStr for AdminToken {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.len() < 16 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("must be at least 16 visible ASCII characters");
        }
        Ok(Self(Sha256::digest(text).into()))
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// The files with a certificate and its key.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and its chain.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The backups that a server makes by itself.
#[derive(Clone, Debug)]
pub struct Backups {
    /// The embedded database.
    pub source: PathBuf,
    pub folder: PathBuf,
    pub every: Duration,
    /// How many are kept.
    pub keep: usize,
}

/// The configuration of a server. The help texts of `options::ServeOptions` document what it is made from.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: SocketAddr,
    pub admin_token: Option<AdminToken>,
    pub admin_hosts: Vec<String>,
    pub tls: Option<TlsFiles>,
    pub database: Database,
    pub redis: Option<RedisUrl>,
    pub public_url: Option<BaseUrl>,
    pub staging_url: Option<BaseUrl>,
    pub trusted_proxies: TrustedProxies,
    pub cors: Cors,
    pub bans: BanPolicy,
    pub keep_usage: Duration,
    pub backups: Option<Backups>,
    pub log: LogFormat,
    pub log_level: LogLevel,
    pub first_key: bool,
    pub migrate: bool,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    pub max_waiting_writes: usize,
    pub request_timeout: Duration,
    pub idle_timeout: Duration,
}

/// Options that conflict, or a file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    #[error("{0}")]
    Usage(String),
    #[error("{option} {file}")]
    File {
        option: &'static str,
        file: InvalidFile,
    },
}

impl InvalidConfig {
    fn usage(problem: &str) -> Self {
        Self::Usage(problem.into())
    }

    fn of_file(option: &'static str) -> impl Fn(InvalidFile) -> Self {
        move |file| Self::File { option, file }
    }
}

impl TryFrom<ServeOptions> for Config {
    type Error = InvalidConfig;

    fn try_from(options: ServeOptions) -> Result<Self, InvalidConfig> {
        let (admin, admin_token) = (options.admin_listen, options.admin_token()?);
        check_admin_address(admin, admin_token.as_ref())
            .map_err(|problem| InvalidConfig::Usage(format!("--admin-listen {problem}")))?;
        let database = options.database.resolve()?;
        let mut redis = options.redis;
        if let (Some(url), Some(path)) = (&mut redis, &options.database.ca_cert) {
            url.set_default_ca(path);
            if let Some(files) = url.files() {
                options.database.check_ca(files)?;
            }
        }
        let tls = match (options.tls_cert, options.tls_key) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
            (None, None) => None,
            (Some(_), None) => return Err(InvalidConfig::usage("--tls-cert requires --tls-key")),
            (None, Some(_)) => return Err(InvalidConfig::usage("--tls-key requires --tls-cert")),
        };
        let backups = match (options.backup_folder, &database) {
            (None, _) if options.backup_options.is_empty() => None,
            (None, _) => {
                let unused = options.backup_options.join(" and ");
                return Err(InvalidConfig::Usage(format!(
                    "no backups are made without --backup-folder: add it, or remove {unused}"
                )));
            }
            (Some(_), Database::Postgres(_)) => {
                return Err(InvalidConfig::usage(
                    "--backup-folder is for the embedded database: back up PostgreSQL with its own tools, such as pg_dump",
                ));
            }
            (Some(folder), Database::Sqlite(source)) => Some(Backups {
                source: source.clone(),
                folder,
                every: options.backup_every,
                keep: options.backup_keep,
            }),
        };
        Ok(Self {
            listen: options.listen,
            admin_listen: admin,
            admin_token,
            admin_hosts: options.admin_host,
            tls,
            database,
            redis,
            public_url: options.public_url,
            staging_url: options.staging_url,
            trusted_proxies: TrustedProxies::new(options.trusted_proxy),
            cors: Cors::new(options.cors_origin),
            bans: BanPolicy {
                max_rejections: options.ban_after,
                first_duration: options.ban_for,
            },
            keep_usage: options.keep_usage,
            backups,
            log: options.log,
            log_level: options.log_level,
            first_key: !options.no_first_key,
            migrate: !options.no_migrate,
            max_connections: options.max_connections,
            max_connections_per_address: options.max_connections_per_address,
            max_waiting_writes: options.max_waiting_writes,
            request_timeout: options.request_timeout,
            idle_timeout: options.idle_timeout,
        })
    }
}

impl Config {
    /// The certificate of the admin listener, unless it is on loopback: traffic cannot be observed there, and health checks need no
    /// certificate.
    pub(crate) fn admin_tls(&self, admin: SocketAddr) -> Option<&TlsFiles> {
        self.tls.as_ref().filter(|_| !is_loopback(admin))
    }
}

/// Rejects an address at which others could reach the admin listener without a token.
pub(crate) fn check_admin_address(
    admin: SocketAddr,
    token: Option<&AdminToken>,
) -> Result<(), String> {
    match token {
        None if !is_loopback(admin) => Err(format!(
            "{admin}: an address that is not loopback requires --admin-token-file or --admin-token"
        )),
        _ => Ok(()),
    }
}

fn is_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

/// The address at which a listener can be reached from this machine.
pub(crate) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        // It also accepts IPv4, which is all that it gets where IPv6 is disabled.
        IpAddr::V6(ip) if ip.is_unspecified() => match UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) {
            Ok(_) => Ipv6Addr::LOCALHOST.into(),
            Err(_) => Ipv4Addr::LOCALHOST.into(),
        },
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_for_bans_is_that_of_the_options() {
        #[derive(clap::Parser)]
        struct Defaults {
            #[command(flatten)]
            options: ServeOptions,
        }
        let options = <Defaults as clap::Parser>::parse_from([""]).options;
        let BanPolicy {
            max_rejections,
            first_duration,
        } = BanPolicy::default();
        assert_eq!(
            (options.ban_after, options.ban_for),
            (max_rejections, first_duration)
        );
    }

    #[test]
    fn only_an_admin_listener_on_loopback_needs_no_token() {
        let is_allowed =
            |address: &&str| check_admin_address(address.parse().unwrap(), None).is_ok();
        let loopback = [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ];
        assert!(loopback.iter().all(is_allowed));
        let others = ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"];
        assert!(!others.iter().any(is_allowed));
    }
}
