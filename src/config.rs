//! The configuration of a server: from the command line, the environment and a file to one validated [`Config`]. Flags override the
//! environment, the environment the file, the file the defaults.

pub mod file;
pub mod options;
pub mod usage;

pub use options::{DatabaseOptions, FileOption, ServeOptions};

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::access::TrustedProxies;
use crate::api::url::BaseUrl;
use crate::limit::{BanPolicy, RedisUrl};
use crate::log::{LogFormat, LogLevel};
use crate::store::Database;

/// The token for the admin listener. Only its hash is kept, so that it can neither be printed nor guessed by timing.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

/// An invalid admin token.
#[derive(Debug, thiserror::Error)]
#[error("must be at least 16 visible ASCII characters")]
pub struct InvalidToken;

impl AdminToken {
    /// Whether this is the token.
    pub fn admits(&self, presented: &[u8]) -> bool {
        self.0 == <[u8; 32]>::from(Sha256::digest(presented))
    }
}

impl FromStr for AdminToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        if text.len() < 16 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidToken);
        }
        Ok(Self(Sha256::digest(text).into()))
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the API.
    pub listen: SocketAddr,
    /// Address of the admin listener.
    pub admin_listen: SocketAddr,
    /// The token for metrics, required unless the admin listener is on loopback.
    pub admin_token: Option<AdminToken>,
    /// The database.
    pub database: Database,
    /// The Redis in which several nodes share their rate limits.
    pub redis: Option<RedisUrl>,
    /// The public URL of the API. Without it links use the host of each request.
    pub public_url: Option<BaseUrl>,
    /// The URL of the staging environment.
    pub staging_url: Option<BaseUrl>,
    /// The proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted.
    pub trusted_proxies: TrustedProxies,
    /// When keys are banned.
    pub bans: BanPolicy,
    /// How long daily usage is kept.
    pub keep_usage: Duration,
    /// The log format.
    pub log: LogFormat,
    /// The log level.
    pub log_level: LogLevel,
    /// Whether a new database gets a first key.
    pub first_key: bool,
    /// Whether a missing database is created, and an older one is migrated.
    pub migrate: bool,
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum number of connections from one address.
    pub max_connections_per_address: usize,
    /// Maximum number of queued writes.
    pub max_waiting_writes: usize,
    /// Timeout for each part of a request to arrive: first byte, head, body.
    pub request_timeout: Duration,
    /// Timeout for an idle connection, or one that does not receive its response.
    pub idle_timeout: Duration,
}

/// Options that conflict.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    /// The admin listener would be open to everyone.
    #[error("--admin-listen {0}: an address that is not loopback requires --admin-token")]
    AdminUnprotected(SocketAddr),
}

impl TryFrom<ServeOptions> for Config {
    type Error = InvalidConfig;

    fn try_from(options: ServeOptions) -> Result<Self, InvalidConfig> {
        let admin = options.admin_listen;
        if !admin.ip().to_canonical().is_loopback() && options.admin_token.is_none() {
            return Err(InvalidConfig::AdminUnprotected(admin));
        }
        Ok(Self {
            listen: options.listen,
            admin_listen: admin,
            admin_token: options.admin_token,
            database: options.database.database,
            redis: options.redis,
            public_url: options.public_url,
            staging_url: options.staging_url,
            trusted_proxies: TrustedProxies::new(options.trusted_proxy),
            bans: BanPolicy {
                after: options.ban_after,
                first: options.ban_for,
            },
            keep_usage: options.keep_usage,
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

/// The address at which a listener can be reached from this machine.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
