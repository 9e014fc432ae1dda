//! What an operator may type for a server. Each option has a flag, an environment variable and a name in the file;
//! each value is parsed here, once, whichever of them it came from.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::AdminToken;
use crate::access::proxy::Cidr;
use crate::api::url::BaseUrl;
use crate::limit::RedisUrl;
use crate::log::{LogFormat, LogLevel};
use crate::plan::{BadLimit, LARGEST_LIMIT};
use crate::span::Span;
use crate::store::Database;

/// Where the data is: what every command on it needs to know.
#[derive(Clone, Debug, clap::Args)]
pub struct DatabaseOptions {
    /// Where the data is
    #[arg(
        long,
        env = "ANIMAL_STORE_DATABASE",
        hide_env_values = true,
        value_name = "URL",
        default_value = "sqlite:animal-store.db"
    )]
    pub database: Database,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a comment here would become help text")]
    pub file: FileOption,
}

/// The file with options.
#[derive(Clone, Debug, clap::Args)]
pub struct FileOption {
    /// A TOML file with options, by their long names
    #[arg(long, env = "ANIMAL_STORE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The options of a server.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeOptions {
    /// Where the API listens; port 0 takes a free one
    #[arg(long, env = "ANIMAL_STORE_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    pub listen: SocketAddr,
    /// Where metrics and health checks are
    #[arg(long, env = "ANIMAL_STORE_ADMIN_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:9090", value_parser = address)]
    pub admin_listen: SocketAddr,
    /// The bearer token for the admin listener, needed where that is not on loopback
    #[arg(
        long,
        env = "ANIMAL_STORE_ADMIN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub admin_token: Option<AdminToken>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a comment here would become help text")]
    pub database: DatabaseOptions,
    /// Where nodes that share a database keep their counters together: redis://HOST:PORT
    #[arg(
        long,
        env = "ANIMAL_STORE_REDIS",
        value_name = "URL",
        hide_env_values = true
    )]
    pub redis: Option<RedisUrl>,
    /// The address clients use, ending in /v1: links and the OpenAPI document show it; without it links lead to each request's Host
    #[arg(long, env = "ANIMAL_STORE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<BaseUrl>,
    /// The address of the staging environment, ending in /v1, for the OpenAPI document
    #[arg(long, env = "ANIMAL_STORE_STAGING_URL", value_name = "URL")]
    pub staging_url: Option<BaseUrl>,
    /// A proxy whose X-Forwarded-For and X-Forwarded-Proto are believed; may be given several times
    #[arg(
        long,
        env = "ANIMAL_STORE_TRUSTED_PROXY",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub trusted_proxy: Vec<Cidr>,
    /// Ban a key that is answered 429 more often than this within a minute; 0 switches bans off
    #[arg(long, env = "ANIMAL_STORE_BAN_AFTER", value_name = "N", default_value = "100", value_parser = whole::<u32>)]
    pub ban_after: u32,
    /// How long a first ban lasts; each further one within 24 hours twice as long, an hour at most
    #[arg(long, env = "ANIMAL_STORE_BAN_FOR", value_name = "TIME", default_value = "5m", value_parser = positive)]
    pub ban_for: Span,
    /// How long the use of keys by day is kept, for reports
    #[arg(long, env = "ANIMAL_STORE_KEEP_USAGE", value_name = "TIME", default_value = "400d", value_parser = days)]
    pub keep_usage: Span,
    /// How log lines look: text or json
    #[arg(
        long,
        env = "ANIMAL_STORE_LOG",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub log: LogFormat,
    /// How much is logged: error, warn, info, debug or trace
    #[arg(
        long,
        env = "ANIMAL_STORE_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub log_level: LogLevel,
    /// Issue no first key on a new database
    #[arg(long, env = "ANIMAL_STORE_NO_FIRST_KEY")]
    pub no_first_key: bool,
    /// Neither create the database nor migrate it: `animal-store migrate` does
    #[arg(long, env = "ANIMAL_STORE_NO_MIGRATE")]
    pub no_migrate: bool,
    /// The most connections at once; for one more, the longest idle one is closed, or it gets 503
    #[arg(long, env = "ANIMAL_STORE_MAX_CONNECTIONS", value_name = "N", default_value = "10000", value_parser = at_least_one)]
    pub max_connections: usize,
    /// The most connections from one address (IPv6: from one /64); trusted proxies are exempt
    #[arg(long, env = "ANIMAL_STORE_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N", default_value = "1000", value_parser = at_least_one)]
    pub max_connections_per_address: usize,
    /// The most writes that wait for the disk; one more is answered 503
    #[arg(long, env = "ANIMAL_STORE_MAX_WAITING_WRITES", value_name = "N", default_value = "4096", value_parser = at_least_one)]
    pub max_waiting_writes: usize,
    /// How long a request may take to arrive: its first byte, its head, its body, each
    #[arg(long, env = "ANIMAL_STORE_REQUEST_TIMEOUT", value_name = "TIME", default_value = "10s", value_parser = positive)]
    pub request_timeout: Span,
    /// How long a connection may be silent between requests
    #[arg(long, env = "ANIMAL_STORE_IDLE_TIMEOUT", value_name = "TIME", default_value = "60s", value_parser = positive)]
    pub idle_timeout: Span,
}

/// Reads an address; a host name would have to be looked up, and could be several.
pub fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "takes an IP address and a port, for example 127.0.0.1:8080")
}

/// Reads the ID of a key, an animal or an order.
pub fn id(text: &str) -> Result<i64, &'static str> {
    match text.parse() {
        Ok(id @ 1..) => Ok(id),
        _ => Err("takes an ID, which is a whole number from 1 on"),
    }
}

/// Reads a limit of plan enterprise.
pub fn limit(text: &str) -> Result<u32, BadLimit> {
    match text.parse() {
        Ok(limit @ 1..=LARGEST_LIMIT) => Ok(limit),
        _ => Err(BadLimit),
    }
}

/// Reads a whole number.
pub fn whole<T: std::str::FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "takes a whole number")
}

fn at_least_one(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("takes a whole number from 1 to 1000000"),
    }
}

/// Reads a length of time of a day or more: what was used today and yesterday is needed for more than reports.
fn days(text: &str) -> Result<Span, &'static str> {
    match text.parse() {
        Ok(span) if span >= Span::from_secs(24 * 60 * 60) => Ok(span),
        _ => Err("takes a length of time of at least a day, such as 90d"),
    }
}

/// Reads a length of time that is one.
pub fn positive(text: &str) -> Result<Span, &'static str> {
    match text.parse() {
        Ok(span) if span > Span::from_secs(0) => Ok(span),
        _ => Err("takes a length of time such as 90s, 5m, 24h or 90d"),
    }
}
