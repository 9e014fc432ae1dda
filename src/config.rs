//! The configuration of a server: from what an operator typed, set or wrote in a file, to one checked [`Config`].
//! Flags win over the environment, the environment over the file, the file over the defaults.

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

/// The token that opens the admin listener. Only its hash is kept, so that it can neither be printed nor timed.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

/// The text is not a token.
#[derive(Debug, thiserror::Error)]
#[error("must be at least 16 visible ASCII characters")]
pub struct InvalidToken;

impl AdminToken {
    /// Whether `presented` is the token.
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

/// What a server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the API listens.
    pub listen: SocketAddr,
    /// Where metrics and health are.
    pub admin_listen: SocketAddr,
    /// What opens them, where they are not on loopback.
    pub admin_token: Option<AdminToken>,
    /// Where the data is.
    pub database: Database,
    /// Where the counters of all nodes are.
    pub redis: Option<RedisUrl>,
    /// The address clients use, where links are not to lead to the host of each request.
    pub public_url: Option<BaseUrl>,
    /// The address of the staging environment.
    pub staging_url: Option<BaseUrl>,
    /// Whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: TrustedProxies,
    /// When keys are banned.
    pub bans: BanPolicy,
    /// How long use by day is kept.
    pub keep_usage: Duration,
    /// How log lines look.
    pub log: LogFormat,
    /// How many of them there are.
    pub log_level: LogLevel,
    /// Whether a new database gets a first key.
    pub first_key: bool,
    /// Whether a missing database is created, and an older one is migrated.
    pub migrate: bool,
    /// The most connections at once.
    pub max_connections: usize,
    /// The most of them from one address.
    pub max_connections_per_address: usize,
    /// The most writes that wait.
    pub max_waiting_writes: usize,
    /// How long a request may take to arrive: its first byte, its head, its body, each.
    pub request_timeout: Duration,
    /// How long a connection may be silent between requests, or not take what we send.
    pub idle_timeout: Duration,
}

/// Options that do not go together.
#[derive(Debug, thiserror::Error)]
pub enum BadConfig {
    /// The admin listener would be open to everyone.
    #[error("--admin-listen {0}: an address that is not loopback needs --admin-token")]
    AdminOpenToAll(SocketAddr),
}

impl TryFrom<ServeOptions> for Config {
    type Error = BadConfig;

    fn try_from(options: ServeOptions) -> Result<Self, BadConfig> {
        let admin = options.admin_listen;
        if !admin.ip().to_canonical().is_loopback() && options.admin_token.is_none() {
            return Err(BadConfig::AdminOpenToAll(admin));
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

/// The address under which a listener can be reached from this machine.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
