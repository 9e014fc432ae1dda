//! A server inside the test's own process.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use animal_store::access::TrustedProxies;
use animal_store::api::cors::Cors;
use animal_store::clock::{Clock, Timestamp};
use animal_store::config::{Config, TlsFiles};
use animal_store::key::{KeyId, Secret};
use animal_store::limit::{BanPolicy, RedisUrl};
use animal_store::log::{LogFormat, LogLevel, Sink};
use animal_store::plan::{Limits, Plan};
use animal_store::server::{self, Running};
use animal_store::store::{Database, KeyRecord, Mode, NewKey, Store};
use animal_store::systemd::ServiceManager;
use tempfile::TempDir;

use crate::{Certificate, Client, Proxy, SqlClient, TlsClient};

/// The time at which a test begins: Monday, 16 November 2026, 12:00:10 UTC. Ten seconds into a minute, twelve hours into a day.
pub const START: Timestamp = Timestamp::from_secs(1_794_830_410);

/// A plan with these limits.
pub fn enterprise(per_minute: u32, per_day: u32) -> Plan {
    Plan::Enterprise(Limits::new(per_minute, per_day).expect("limits"))
}

/// The environment variable with the address of a PostgreSQL server, if tests are to run on one.
const POSTGRES: &str = "ANIMAL_STORE_TEST_POSTGRES";

/// Set if tests are to run over HTTP/2, with TLS.
const HTTP2: &str = "ANIMAL_STORE_TEST_HTTP2";

/// The environment variable with the address of a Redis.
const REDIS: &str = "ANIMAL_STORE_TEST_REDIS";

/// A running server, its clock and its data.
pub struct App {
    /// The server's clock. It stands still until the test moves it.
    pub clock: Clock,
    config: Config,
    running: Option<Running>,
    runtime: tokio::runtime::Runtime,
    log: Lines,
    /// The TLS configuration of clients, if the tests run over HTTP/2.
    tls: Option<TlsClient>,
    _folder: TempDir,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl App {
    /// A server, a client without a key, and one whose key no test exhausts by accident.
    pub fn start() -> (Self, Client, Client) {
        Self::start_with(|_| {})
    }

    /// The same, with another configuration.
    pub fn start_with(change: impl FnOnce(&mut Config)) -> (Self, Client, Client) {
        let folder = TempDir::new().expect("a folder");
        let mut config = config(database_for(&folder));
        let tls = std::env::var_os(HTTP2).map(|_| {
            let certificate = Certificate::new();
            let (cert, key) = certificate.write(folder.path());
            config.tls = Some(TlsFiles { cert, key });
            certificate.http2_client()
        });
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let mut app = Self {
            clock: Clock::manual(START),
            config,
            running: None,
            runtime,
            log: Lines::default(),
            tls,
            _folder: folder,
        };
        app.launch();
        let anonymous = app.anonymous();
        let key = app.key(enterprise(1_000_000, 1_000_000));
        (app, anonymous, key)
    }

    fn launch(&mut self) {
        let (log, clock) = (self.log.clone(), self.clock.clone());
        let sink = Sink::to(log, self.config.log, clock.clone()).expect("a log");
        let starting = server::start(&self.config, clock, ServiceManager::default(), sink);
        self.running = Some(self.runtime.block_on(starting).expect("the server starts"));
    }

    /// Stops the server as SIGTERM would, and returns when it has stopped.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime
                .block_on(running.shut_down())
                .expect("the server stops");
        }
    }

    /// Stops the server and starts it again on the same data; it has a new address.
    pub fn restart(&mut self) {
        self.stop();
        self.launch();
    }

    /// The address of the API.
    pub fn address(&self) -> SocketAddr {
        self.running().address
    }

    /// The origin of the API, with which links begin.
    pub fn origin(&self) -> String {
        let scheme = if self.config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address())
    }

    /// The address of the admin listener.
    pub fn admin_address(&self) -> SocketAddr {
        self.running().admin_address
    }

    /// The file of the database.
    pub fn database(&self) -> PathBuf {
        match &self.config.database {
            Database::Sqlite(path) => path.clone(),
            other => panic!("{other} is not a file"),
        }
    }

    /// The database, as `--database` takes it.
    pub fn database_url(&self) -> String {
        url_of(&self.config.database)
    }

    /// Another client of the database.
    pub fn sql_client(&self) -> SqlClient {
        SqlClient::open(&self.config.database)
    }

    /// The request log so far. It is complete once the server has stopped.
    pub fn log(&self) -> String {
        String::from_utf8(self.log.0.lock().expect("log").clone()).expect("text")
    }

    /// A client without a key.
    pub fn anonymous(&self) -> Client {
        self.client(None)
    }

    /// A client with this key, or none.
    pub fn client(&self, key: Option<String>) -> Client {
        Client {
            tls: self.tls.clone(),
            ..Client::new(self.address(), key)
        }
    }

    /// A client with a new key of this plan.
    pub fn key(&self, plan: Plan) -> Client {
        self.issue(plan, None).1
    }

    /// A new key of this plan that expires after this time: its ID, and a client that has it.
    pub fn issue(&self, plan: Plan, expires: Option<Duration>) -> (KeyId, Client) {
        let secret = Secret::generate().expect("randomness");
        let now = self.clock.now();
        let key = NewKey {
            name: "test".into(),
            plan,
            created_at: now,
            expires_at: expires.map(|span| now.plus(span)),
        };
        let record = self
            .block_on(self.store().add_key(key, &secret))
            .expect("a key");
        (record.id, self.client(Some(secret.reveal().to_owned())))
    }

    /// A key as the store of the server has it.
    pub fn stored_key(&self, id: KeyId) -> KeyRecord {
        let key = self.block_on(self.store().key(id)).expect("a store");
        key.expect("a key")
    }

    /// The database of the server, opened a second time, as the command line opens it.
    pub fn second_store(&self) -> Store {
        let opening = Store::open(&self.config.database, Mode::ReadWrite, 1);
        self.runtime.block_on(opening).expect("the data opens")
    }

    /// The store of the server.
    pub fn store(&self) -> &Store {
        self.running().store()
    }

    /// Waits for a future of the library.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server runs")
    }
}

impl Drop for App {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

/// The database of a test: a file of its own, or, if `ANIMAL_STORE_TEST_POSTGRES` is the address of a server, a database of its own
/// there. So every test of the service is a test of both engines.
pub fn database_for(folder: &TempDir) -> Database {
    let Ok(server) = std::env::var(POSTGRES) else {
        return Database::Sqlite(folder.path().join("animals.db"));
    };
    let name = folder.path().file_name().expect("a name").to_string_lossy();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = format!("t{}_{}", std::process::id(), name.to_lowercase());
    let database_of = |name: &str| format!("{server}/{name}").parse().expect("a database");
    SqlClient::open(&database_of("postgres"))
        .run(&format!("CREATE DATABASE {name}"))
        .expect("a database");
    database_of(&name)
}

/// The time within which a server applies the changes of other processes: a second, and five where there may be several nodes.
pub fn propagation_time() -> Duration {
    let may_be_several = std::env::var_os(POSTGRES).is_some();
    Duration::from_secs(if may_be_several { 5 } else { 1 })
}

/// A database of [`database_for`], as `--database` takes it.
pub(crate) fn url_of(database: &Database) -> String {
    match database {
        Database::Sqlite(path) => format!("sqlite:{}", path.display()),
        Database::Postgres(url) => {
            let server = std::env::var(POSTGRES).expect("a server");
            format!(
                "{server}/{}",
                url.servers()[0].get_dbname().expect("a name")
            )
        }
    }
}

/// Where a test's counters are: in the server's memory, or, if `ANIMAL_STORE_TEST_REDIS` is the address of a Redis, in a numbered
/// database of its own there.
pub fn redis_url() -> Option<RedisUrl> {
    let server = std::env::var(REDIS).ok()?;
    Some(database_of(&server))
}

/// The same, through a proxy that can cut it off.
pub fn redis_behind_proxy() -> Option<(RedisUrl, Proxy)> {
    let server = std::env::var(REDIS).ok()?;
    let target: SocketAddr = server
        .strip_prefix("redis://")?
        .parse()
        .expect("an address");
    let proxy = Proxy::to(target);
    let behind = format!("redis://{}", proxy.address());
    Some((database_of(&behind), proxy))
}

/// A database of this Redis that nobody else uses.
fn database_of(server: &str) -> RedisUrl {
    let number = std::process::Command::new("redis-cli")
        .args(["-u", server, "INCR", "databases"])
        .output()
        .expect("redis-cli runs");
    let number = String::from_utf8(number.stdout).expect("text");
    format!("{server}/{}", number.trim())
        .parse()
        .expect("a Redis")
}

fn config(database: Database) -> Config {
    let free: SocketAddr = ([127, 0, 0, 1], 0).into();
    Config {
        listen: free,
        admin_listen: free,
        admin_token: None,
        admin_hosts: Vec::new(),
        tls: None,
        database,
        redis: redis_url(),
        public_url: None,
        staging_url: None,
        trusted_proxies: TrustedProxies::default(),
        cors: Cors::default(),
        bans: BanPolicy::default(),
        keep_usage: Duration::from_secs(400 * 24 * 60 * 60),
        backups: None,
        log: LogFormat::Text,
        log_level: LogLevel::INFO,
        first_key: false,
        migrate: true,
        max_connections: 1_000,
        max_connections_per_address: 1_000,
        max_waiting_writes: 4_096,
        request_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(60),
    }
}
