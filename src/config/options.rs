//! The options of a server. Each has a flag, an environment variable and a name in the file; a value from any of them is parsed here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{AdminToken, InvalidConfig, duration};
use crate::access::proxy::Cidr;
use crate::api::cors::Origin;
use crate::api::url::BaseUrl;
use crate::files::{InvalidFile, read_secret_line};
use crate::limit::RedisUrl;
use crate::log::{LogFormat, LogLevel};
use crate::plan::{INVALID_LIMIT, MAX_LIMIT};
use crate::store::Database;
use crate::tls::{ClientFiles, Roots, read_roots};

/// The options for the database, shared by the server and the commands on one database.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DatabaseOptions {
    /// Database: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME; for TLS add ?sslmode=verify-full
    #[arg(
        long,
        hide_env_values = true,
        value_name = "URL",
        default_value = "sqlite:animal-store.db",
        value_parser = url::<Database>
    )]
    pub(crate) database: Database,
    /// File whose first line is the password for PostgreSQL; rejected if every user can read it
    #[arg(long, value_name = "FILE")]
    pub(crate) database_password_file: Option<PathBuf>,
    /// PEM file with the CAs that sign the certificates of PostgreSQL and Redis; by default those that the system trusts, but
    /// sslmode=verify-ca requires a file
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config_file: ConfigFileOption,
}

impl DatabaseOptions {
    /// The database with the password and the CAs that other options name.
    pub(crate) fn resolve(&self) -> Result<Database, InvalidConfig> {
        self.resolve_as("--database")
    }

    /// The same, for a command that has another option for the URL.
    pub(crate) fn resolve_as(&self, option: &str) -> Result<Database, InvalidConfig> {
        let mut database = self.database.clone();
        if let Some(path) = &self.database_password_file {
            let Database::Postgres(url) = &mut database else {
                let problem = "--database-password-file requires --database postgres://…";
                return Err(InvalidConfig::usage(problem));
            };
            if url.has_password() {
                return Err(InvalidConfig::usage(
                    "--database-password-file cannot be used with a password in the URL of --database: use one of them",
                ));
            }
            let password = read_secret_line(path, "password");
            url.set_password(
                &password.map_err(InvalidConfig::of_file("--database-password-file"))?,
            );
        }
        if let Some(path) = &self.ca_cert {
            database.set_default_ca(path);
        }
        if let Database::Postgres(url) = &database {
            let checked = url.check_roots();
            checked.map_err(|problem| InvalidConfig::usage(&format!("{option}: {problem}")))?;
            if database.verifies() {
                self.check_ca(&url.files)?;
            }
        }
        Ok(database)
    }

    /// Checks the file of `--ca-cert`, if a server is verified with it. A later error would name the option with the URL instead.
    pub(super) fn check_ca(&self, files: &ClientFiles) -> Result<(), InvalidConfig> {
        match (&self.ca_cert, &files.roots) {
            (Some(path), Some(Roots::File(used))) if path == used => {
                let read = read_roots(path).map(drop);
                read.map_err(InvalidConfig::of_file("--ca-cert"))
            }
            _ => Ok(()),
        }
    }
}

// The field is not read: `cli::parse` takes its value from a first parse of all options, makes the values of the file the defaults,
// and parses again.
/// The option `--config`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConfigFileOption {
    /// TOML file with options, by their long names
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The address of the API, also for a health check.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:8080";

/// The options of a server.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeOptions {
    /// Address of the API; port 0 picks a free port
    #[arg(long, value_name = "IP:PORT", default_value = DEFAULT_LISTEN, value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Address of the admin listener: dashboard, metrics and health checks
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9090", value_parser = address)]
    pub(crate) admin_listen: SocketAddr,
    /// Token for the dashboard and metrics; required to make changes, and always if the admin listener is not on loopback
    #[arg(long, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) admin_token: Option<AdminToken>,
    /// File whose first line is the token, instead of --admin-token; rejected if every user can read it
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Host names, besides IP addresses and localhost, by which clients reach the dashboard and the admin API; can be repeated, or
    /// separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = listed(host_name))]
    pub(crate) admin_host: Vec<String>,
    /// PEM file with the certificate and its chain: serves HTTPS with HTTP/2 and HTTP/1.1; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate; rejected if every user can read it
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) database: DatabaseOptions,
    /// Redis server or cluster through which nodes share the counters of rate limits: redis://HOST:PORT, or rediss:// with TLS
    #[arg(long, value_name = "URL", hide_env_values = true, value_parser = url::<RedisUrl>)]
    pub(crate) redis: Option<RedisUrl>,
    /// Public URL of the API, ending in /v1, for links and the OpenAPI document; by default links use each request's Host
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<BaseUrl>,
    /// URL of the staging environment, ending in /v1, for the OpenAPI document
    #[arg(long, value_name = "URL")]
    pub(crate) staging_url: Option<BaseUrl>,
    /// Proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted; can be repeated, or separated by commas
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = listed(Cidr::from_str))]
    pub(crate) trusted_proxy: Vec<Cidr>,
    /// Origins whose pages may call the API from a browser, or * for all; can be repeated, or separated by commas
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', value_parser = listed(Origin::from_str))]
    pub(crate) cors_origin: Vec<Origin>,
    /// Ban a key that gets more than this many 429 responses within a minute; 0: no new bans (`keys unban` ends an existing one)
    #[arg(long, value_name = "N", default_value = "100", value_parser = whole_number)]
    pub(crate) ban_after: u32,
    /// Duration of a first ban; it doubles with each further ban within 24 hours, up to one hour
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::at_most_an_hour)]
    pub(crate) ban_for: Duration,
    /// How long daily usage is kept for reports
    #[arg(long, value_name = "DURATION", default_value = "400d", value_parser = duration::at_least_a_day)]
    pub(crate) keep_usage: Duration,
    /// Existing folder in which the server makes regular backups of the embedded database
    #[arg(long, value_name = "DIR")]
    pub(crate) backup_folder: Option<PathBuf>,
    /// Interval between backups in --backup-folder
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::positive)]
    pub(crate) backup_every: Duration,
    /// Number of backups kept in --backup-folder
    #[arg(long, value_name = "N", default_value = "24", value_parser = count)]
    pub(crate) backup_keep: usize,
    /// Log format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log: LogFormat,
    /// Log level; requests are logged at info
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_level())]
    pub(crate) log_level: LogLevel,
    /// Do not issue a first key on a new database
    #[arg(long)]
    pub(crate) no_first_key: bool,
    /// Neither create nor migrate the database; use `animal-store migrate` for that
    #[arg(long)]
    pub(crate) no_migrate: bool,
    /// Maximum number of connections; at the limit the one that has waited longest for its client is closed; if none waits for its
    /// client, a new one gets 503
    #[arg(long, value_name = "N", default_value = "10000", value_parser = count)]
    pub(crate) max_connections: usize,
    /// Maximum number of connections from one address (IPv6: one /64); trusted proxies are exempt
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count)]
    pub(crate) max_connections_per_address: usize,
    /// Maximum number of creations waiting for a transaction; further ones get 503
    #[arg(long, value_name = "N", default_value = "4096", value_parser = count)]
    pub(crate) max_waiting_writes: usize,
    /// Timeout for each part of a request to arrive: first byte, head, body
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::positive)]
    pub(crate) request_timeout: Duration,
    /// Timeout for an idle connection, and for a client that reads a response at less than 1 KiB/s
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::positive)]
    pub(crate) idle_timeout: Duration,
    /// The options of backups that were given.
    #[arg(skip)]
    pub(crate) backup_options: Vec<&'static str>,
    /// The options whose secrets were given as flags: every user of the machine can see them.
    #[arg(skip)]
    pub(crate) secret_flags: Vec<&'static str>,
}

impl ServeOptions {
    /// Whether `--ca-cert` has no effect, because no certificate is verified.
    pub(crate) fn has_unused_ca(&self) -> bool {
        let mut database = self.database.database.clone();
        let Some(path) = &self.database.ca_cert else {
            return false;
        };
        database.set_default_ca(path);
        let redis = self.redis.as_ref();
        !database.verifies() && redis.is_none_or(|url| url.files().is_none())
    }

    /// Records which options of backups were given. `is_given` returns whether the option with this ID was.
    pub(crate) fn record_backup_options(&mut self, is_given: impl Fn(&str) -> bool) {
        let options = [
            ("backup_every", "--backup-every"),
            ("backup_keep", "--backup-keep"),
        ];
        let given = options.iter().filter(|(id, _)| is_given(id));
        self.backup_options = given.map(|(_, option)| *option).collect();
    }

    /// Records which secrets were given as flags. `is_flag` returns whether the option with this ID was.
    pub(crate) fn record_secret_flags(&mut self, is_flag: impl Fn(&str) -> bool) {
        let redis_has_password = self.redis.as_ref().is_some_and(RedisUrl::has_password);
        let secrets = [
            ("admin_token", "--admin-token", true),
            (
                "database",
                "--database",
                self.database.database.has_password(),
            ),
            ("redis", "--redis", redis_has_password),
        ];
        let flags = secrets.iter().filter(|(id, _, has)| *has && is_flag(id));
        self.secret_flags = flags.map(|(_, option, _)| *option).collect();
    }

    /// The token for the admin listener, from its option or its file.
    pub(crate) fn admin_token(&self) -> Result<Option<AdminToken>, InvalidConfig> {
        let path = match (&self.admin_token, &self.admin_token_file) {
            (token, None) => return Ok(token.clone()),
            (None, Some(path)) => path,
            (Some(_), Some(_)) => {
                let problem =
                    "--admin-token-file cannot be used with --admin-token: use one of them";
                return Err(InvalidConfig::usage(problem));
            }
        };
        let token = read_secret_line(path, "token").and_then(|line| {
            let problem = |error| format!("the first line {error}");
            line.parse().map_err(problem).map_err(InvalidFile::of(path))
        });
        Ok(Some(
            token.map_err(InvalidConfig::of_file("--admin-token-file"))?,
        ))
    }
}

/// Parses an address. A host name would have to be resolved, and could be several addresses.
pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "must be an IP address and a port, such as 127.0.0.1:8080")
}

/// Parses the URL of a database or of Redis. A line break that a file or a script has added would become part of a name: the server
/// would create another, empty database.
pub(crate) fn url<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    match text.contains(char::is_control) || text.trim() != text {
        true => Err("must not contain line breaks or other control characters, or begin or end with white space: remove them".into()),
        false => text.parse(),
    }
}

/// A parser for one value of a comma-separated list.
fn listed<T>(
    parse: fn(&str) -> Result<T, &'static str>,
) -> impl Fn(&str) -> Result<T, &'static str> + Clone {
    move |text| match text.contains(char::is_whitespace) {
        true => Err("must not contain white space: separate values with commas only"),
        false => parse(text),
    }
}

fn host_name(text: &str) -> Result<String, &'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match (1..=253).contains(&text.len()) && text.bytes().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("must be a host name without a port, such as admin.example.com"),
    }
}

/// Parses the ID of a key, an animal or an order.
pub(crate) fn id(text: &str) -> Result<i64, &'static str> {
    match text.parse() {
        Ok(id @ 1..) => Ok(id),
        _ => Err("must be an ID, a whole number of at least 1"),
    }
}

pub(crate) fn limit(text: &str) -> Result<u32, &'static str> {
    match text.parse() {
        Ok(limit @ 1..=MAX_LIMIT) => Ok(limit),
        _ => Err(INVALID_LIMIT),
    }
}

fn log_level() -> impl TypedValueParser<Value = LogLevel> {
    PossibleValuesParser::new(["error", "warn", "info", "debug", "trace"])
        .try_map(|text| text.parse())
}

fn whole_number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "must be between 0 and 4294967295")
}

pub(crate) fn count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("must be between 1 and 1000000"),
    }
}
