//! Three nodes, and the servers that they use.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;

use harness::{Authority, Client, Output, Postgres, Process, Proxy, Redis, Signed, run};
use serde_json::Value;
use tempfile::TempDir;

use super::{NODES, PROGRAM, tls};

/// Set like a fault, but it is not one: nodes wait longer for Redis.
const LONG_REDIS_TIMEOUT: &str = "waits-for-redis";

/// The nodes, and the servers that they use.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Process>,
    pub(crate) postgres: Postgres,
    pub(crate) redis: Redis,
    pub(crate) redis_url: String,
    /// The nodes reach PostgreSQL through this; commands connect directly.
    pub(crate) proxy: Proxy,
    pub(crate) fault: String,
    pub(crate) folder: TempDir,
}

impl Cluster {
    /// Three nodes.
    pub(crate) fn start() -> Self {
        Self::with_fault("none")
    }

    /// Three nodes that count together, also where Redis is late because this machine is busy.
    pub(crate) fn start_with_long_redis_timeout() -> Self {
        Self::with_fault(LONG_REDIS_TIMEOUT)
    }

    /// Three nodes with this fault.
    pub(crate) fn with_fault(fault: &str) -> Self {
        let redis = match over_tls() {
            Some(server) => Redis::start_with_tls(server, false),
            None => Redis::start(),
        };
        let url = redis.url() + &redis_parameters();
        Self::with_redis(fault, redis, url)
    }

    /// Three nodes, with the same timeout, whose counters are divided among three Redis servers, and the two besides
    /// [`Cluster::redis`].
    pub(crate) fn on_redis_cluster() -> (Self, [Redis; 2]) {
        let shards = match over_tls() {
            Some(server) => Redis::cluster_with_tls(server),
            None => Redis::cluster(),
        };
        let ports = shards.each_ref().map(Redis::port);
        Self::on_shards(shards, ports)
    }

    /// The same with these Redis servers, which nodes reach at these ports.
    pub(crate) fn on_shards([one, two, three]: [Redis; 3], ports: [u16; 3]) -> (Self, [Redis; 2]) {
        let ports = ports.map(|port| format!("127.0.0.1:{port}"));
        let scheme = one.url();
        let scheme = scheme.split(':').next().expect("a scheme");
        let url = format!("{scheme}://{}{}", ports.join(","), redis_parameters());
        (Self::with_redis(LONG_REDIS_TIMEOUT, one, url), [two, three])
    }

    /// Three nodes whose counters are at this URL, which `redis` serves, alone or with others.
    fn with_redis(fault: &str, redis: Redis, redis_url: String) -> Self {
        let postgres = match over_tls() {
            Some(server) => Postgres::start_with_tls(server, tls::EVERYBODY),
            None => Postgres::start(),
        };
        let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
        let mut cluster = Self {
            nodes: Vec::new(),
            redis,
            redis_url,
            postgres,
            proxy,
            fault: fault.into(),
            folder: TempDir::new().expect("a folder"),
        };
        cluster.nodes = (0..NODES).map(|_| cluster.start_node()).collect();
        cluster
    }

    /// One more node.
    pub(crate) fn start_node(&self) -> Process {
        self.start_node_with(&[])
    }

    /// One more node, with these options.
    pub(crate) fn start_node_with(&self, options: &[&str]) -> Process {
        let database = self.postgres.url().replace(
            &self.postgres.port().to_string(),
            &self.proxy.port().to_string(),
        );
        self.serve(&(database + &postgres_parameters()), options)
    }

    /// A node on another database.
    pub(crate) fn start_node_on(&self, database: &str) -> Process {
        self.serve(database, &[])
    }

    fn serve(&self, database: &str, options: &[&str]) -> Process {
        let args = [
            "--no-first-key",
            "--database",
            database,
            "--redis",
            &self.redis_url,
            "--log-level",
            "warn",
        ];
        let args = [&args[..], options].concat();
        let vars = [("ANIMAL_STORE_FAULT", &*self.fault)];
        Process::serve_with(PROGRAM, self.folder.path(), &args, &vars)
    }

    /// Runs a command on the database.
    pub(crate) fn command(&self, args: &[&str]) -> Output {
        let database = self.postgres.url() + &postgres_parameters();
        let args = [args, &["--database", &database]].concat();
        run(PROGRAM, self.folder.path(), &args).exits(0)
    }

    /// A new key with these limits: its ID and its secret.
    pub(crate) fn key(&self, per_minute: u32, per_day: u32) -> (i64, String) {
        let (minute, day) = (per_minute.to_string(), per_day.to_string());
        let create = [
            "keys",
            "create",
            "--name",
            "a",
            "--plan",
            "enterprise",
            "--json",
        ];
        let limits = ["--per-minute", &minute, "--per-day", &day];
        let made = self.command(&[&create[..], &limits].concat());
        let made: Value = serde_json::from_str(&made.stdout).expect("JSON");
        let id = made["id"].as_i64().expect("an ID");
        (id, made["key"].as_str().expect("a key").to_owned())
    }

    /// A key whose limits no test reaches.
    pub(crate) fn large_key(&self) -> String {
        self.key(1_000_000_000, 1_000_000_000).1
    }

    /// A client of each node, with this key.
    pub(crate) fn clients(&self, key: &str) -> Vec<Client> {
        self.nodes
            .iter()
            .map(|node| node.client(Some(key)))
            .collect()
    }

    /// The value of a metric of a node.
    pub(crate) fn metric(&self, node: usize, name: &str) -> String {
        let page = Client::new(self.nodes[node].admin, None).get("/metrics");
        let text = String::from_utf8(page.body).expect("text");
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_whitespace().last());
        value.unwrap_or_else(|| panic!("no {name}")).to_owned()
    }
}

/// The certificate of all servers, if nodes connect to PostgreSQL and Redis over TLS (`ANIMAL_STORE_TEST_TLS=1`).
fn over_tls() -> Option<&'static Signed> {
    static SERVER: OnceLock<Option<(Signed, Authority)>> = OnceLock::new();
    let wanted = || std::env::var("ANIMAL_STORE_TEST_TLS").is_ok_and(|value| value == "1");
    let make = || {
        let authority = Authority::new();
        (authority.server(), authority)
    };
    let made = SERVER.get_or_init(|| wanted().then(make));
    made.as_ref().map(|(server, _)| server)
}

/// The parameters of the URL of PostgreSQL.
fn postgres_parameters() -> String {
    let verify = |ca| format!("?sslmode=verify-full&sslrootcert={ca}");
    ca_of_all().map(verify).unwrap_or_default()
}

/// The parameters of the URL of Redis.
fn redis_parameters() -> String {
    let verify = |ca| format!("/?sslrootcert={ca}");
    ca_of_all().map(verify).unwrap_or_default()
}

fn ca_of_all() -> Option<String> {
    Some(over_tls()?.ca.display().to_string())
}
