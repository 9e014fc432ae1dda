//! The options of a server. Each has a flag, an environment variable and a name in the file; each value is parsed here, once, from
//! any of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SpanRelativeTo;

use super::AdminToken;
use crate::access::proxy::Cidr;
use crate::api::url::BaseUrl;
use crate::limit::RedisUrl;
use crate::log::{LogFormat, LogLevel};
use crate::plan::{InvalidLimit, LARGEST_LIMIT};
use crate::store::Database;

/// The option that every command on the data has.
#[derive(Clone, Debug, clap::Args)]
pub struct DatabaseOptions {
    /// Database: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME
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

/// The configuration file.
#[derive(Clone, Debug, clap::Args)]
pub struct FileOption {
    /// TOML file with options, by their long names
    #[arg(long, env = "ANIMAL_STORE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The options of a server.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeOptions {
    /// Address of the API; port 0 picks a free port
    #[arg(long, env = "ANIMAL_STORE_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    pub listen: SocketAddr,
    /// Address of the admin listener: metrics and health checks
    #[arg(long, env = "ANIMAL_STORE_ADMIN_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:9090", value_parser = address)]
    pub admin_listen: SocketAddr,
    /// Bearer token for metrics; required unless the admin listener is on loopback
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
    /// Redis in which several nodes share their rate limits: redis://HOST:PORT
    #[arg(
        long,
        env = "ANIMAL_STORE_REDIS",
        value_name = "URL",
        hide_env_values = true
    )]
    pub redis: Option<RedisUrl>,
    /// Public URL of the API, ending in /v1, for links and the OpenAPI document; by default links use each request's Host
    #[arg(long, env = "ANIMAL_STORE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<BaseUrl>,
    /// URL of the staging environment, ending in /v1, for the OpenAPI document
    #[arg(long, env = "ANIMAL_STORE_STAGING_URL", value_name = "URL")]
    pub staging_url: Option<BaseUrl>,
    /// Proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted; can be repeated
    #[arg(
        long,
        env = "ANIMAL_STORE_TRUSTED_PROXY",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub trusted_proxy: Vec<Cidr>,
    /// Ban a key after this many 429 responses within a minute; 0 disables bans
    #[arg(long, env = "ANIMAL_STORE_BAN_AFTER", value_name = "N", default_value = "100", value_parser = whole)]
    pub ban_after: u32,
    /// Duration of a first ban; it doubles with each further ban within 24 hours, up to one hour
    #[arg(long, env = "ANIMAL_STORE_BAN_FOR", value_name = "DURATION", default_value = "5m", value_parser = positive)]
    pub ban_for: Duration,
    /// How long daily usage is kept for reports
    #[arg(long, env = "ANIMAL_STORE_KEEP_USAGE", value_name = "DURATION", default_value = "400d", value_parser = days)]
    pub keep_usage: Duration,
    /// Log format
    #[arg(
        long,
        env = "ANIMAL_STORE_LOG",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub log: LogFormat,
    /// Log level; requests are logged at info
    #[arg(
        long,
        env = "ANIMAL_STORE_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub log_level: LogLevel,
    /// Do not issue a first key on a new database
    #[arg(long, env = "ANIMAL_STORE_NO_FIRST_KEY")]
    pub no_first_key: bool,
    /// Neither create nor migrate the database; use `animal-store migrate` for that
    #[arg(long, env = "ANIMAL_STORE_NO_MIGRATE")]
    pub no_migrate: bool,
    /// Maximum number of connections; at the limit the longest idle one is closed, or a new one gets 503
    #[arg(long, env = "ANIMAL_STORE_MAX_CONNECTIONS", value_name = "N", default_value = "10000", value_parser = at_least_one)]
    pub max_connections: usize,
    /// Maximum number of connections from one address (IPv6: one /64); trusted proxies are exempt
    #[arg(long, env = "ANIMAL_STORE_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N", default_value = "1000", value_parser = at_least_one)]
    pub max_connections_per_address: usize,
    /// Maximum number of queued writes; further ones get 503
    #[arg(long, env = "ANIMAL_STORE_MAX_WAITING_WRITES", value_name = "N", default_value = "4096", value_parser = at_least_one)]
    pub max_waiting_writes: usize,
    /// Timeout for each part of a request to arrive: first byte, head, body
    #[arg(long, env = "ANIMAL_STORE_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = positive)]
    pub request_timeout: Duration,
    /// Timeout for an idle connection
    #[arg(long, env = "ANIMAL_STORE_IDLE_TIMEOUT", value_name = "DURATION", default_value = "60s", value_parser = positive)]
    pub idle_timeout: Duration,
}

/// The longest duration: a thousand years, so that no sum with a point in time overflows.
const LONGEST: Duration = Duration::from_hours(365_000 * 24);

/// Reads an address. A host name would have to be resolved, and could be several addresses.
pub fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "must be an IP address and a port, such as 127.0.0.1:8080")
}

/// Reads the ID of a key, an animal or an order.
pub fn id(text: &str) -> Result<i64, &'static str> {
    match text.parse() {
        Ok(id @ 1..) => Ok(id),
        _ => Err("must be an ID, a whole number of at least 1"),
    }
}

/// Reads a limit of plan enterprise.
pub fn limit(text: &str) -> Result<u32, InvalidLimit> {
    match text.parse() {
        Ok(limit @ 1..=LARGEST_LIMIT) => Ok(limit),
        _ => Err(InvalidLimit),
    }
}

fn whole(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "must be a whole number")
}

fn at_least_one(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("must be between 1 and 1000000"),
    }
}

/// Reads a duration in whole seconds, such as `90s`, `24h` or `1h30m`.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    read_duration(text).ok_or("must be a duration such as 90s, 5m, 24h or 90d")
}

/// Reads a duration that is not zero.
pub fn positive(text: &str) -> Result<Duration, &'static str> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than 0s"),
        duration => Ok(duration),
    }
}

/// Reads a duration of a day or more: usage of today and yesterday is needed for more than reports.
fn days(text: &str) -> Result<Duration, &'static str> {
    match duration(text)? {
        duration if duration >= Duration::from_hours(24) => Ok(duration),
        _ => Err("must be at least 1d"),
    }
}

fn read_duration(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let duration = Duration::try_from(duration).ok()?;
    (duration.subsec_nanos() == 0 && duration <= LONGEST).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_in_the_units_that_are_documented() {
        for (text, secs) in [
            ("90s", 90),
            ("5m", 300),
            ("24h", 86_400),
            ("90d", 7_776_000),
            ("1h30m", 5_400),
            ("1d 12h", 129_600),
            ("0s", 0),
            ("365000d", 31_536_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(secs)), "{text}");
        }
    }

    #[test]
    fn a_duration_is_positive_whole_and_no_longer_than_a_thousand_years() {
        for text in [
            "",
            "5",
            "m",
            "-5m",
            "5x",
            "1mo",
            "1y",
            "0.5s",
            "500ms",
            "365001d",
            "9999999d",
            "99999999999999999999s",
            "5m ago",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
