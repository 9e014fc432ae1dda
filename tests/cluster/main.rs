//! Three nodes as processes of their own, on one PostgreSQL and one Redis that the tests start themselves: what a client sees
//! when all are healthy, and when one of them is cut off, stalled, killed or replaced.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod changes;
mod clocks;
mod copy;
mod dashboard;
mod exact;
mod far;
mod format;
mod locked;
mod nodes;
mod packaged;
mod postgres;
mod privileges;
mod readiness;
mod redis;
mod retries;
mod same;
mod tls;
mod transfer;
mod upgrade;
mod usage;
mod walking;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::{
    Authority, Client, Connection, Output, Postgres, Process, Proxy, Redis, Response, Signed, run,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// How many nodes there are.
const NODES: usize = 3;

/// Whether the long versions are wanted.
fn is_long() -> bool {
    std::env::var("ANIMAL_STORE_TEST_LONG").is_ok_and(|value| value == "1")
}

/// The certificate of all servers, if `ANIMAL_STORE_TEST_TLS=1` wants nodes that reach PostgreSQL and Redis over TLS alone.
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

/// What the URL of PostgreSQL ends with.
fn postgres_parameters() -> String {
    let verify = |ca| format!("?sslmode=verify-full&sslrootcert={ca}");
    ca_of_all().map(verify).unwrap_or_default()
}

/// What the URL of Redis ends with.
fn redis_parameters() -> String {
    let verify = |ca| format!("/?sslrootcert={ca}");
    ca_of_all().map(verify).unwrap_or_default()
}

fn ca_of_all() -> Option<String> {
    Some(over_tls()?.ca.display().to_string())
}

/// What is under the nodes, and the nodes.
struct Cluster {
    nodes: Vec<Process>,
    postgres: Postgres,
    redis: Redis,
    redis_url: String,
    /// The nodes reach PostgreSQL through this; commands go straight.
    wire: Proxy,
    fault: String,
    folder: TempDir,
}

impl Cluster {
    /// Three nodes.
    fn start() -> Self {
        Self::broken("none")
    }

    /// Three nodes that are broken in this way.
    fn broken(fault: &str) -> Self {
        let redis = match over_tls() {
            Some(server) => Redis::start_with_tls(server, false),
            None => Redis::start(),
        };
        let url = redis.url() + &redis_parameters();
        Self::with_redis(fault, redis, url)
    }

    /// Three nodes whose counters are divided among three Redis: two of them beside the one of the nodes.
    fn on_redis_cluster() -> (Self, [Redis; 2]) {
        let [one, two, three] = match over_tls() {
            Some(server) => Redis::cluster_with_tls(server),
            None => Redis::cluster(),
        };
        let ports = [&one, &two, &three].map(|redis| format!("127.0.0.1:{}", redis.port()));
        let scheme = one.url();
        let scheme = scheme.split(':').next().expect("a scheme");
        let url = format!("{scheme}://{}{}", ports.join(","), redis_parameters());
        (Self::with_redis("none", one, url), [two, three])
    }

    /// Three nodes whose counters are at this address, of which `redis` is all or a part.
    fn with_redis(fault: &str, redis: Redis, redis_url: String) -> Self {
        let postgres = match over_tls() {
            Some(server) => Postgres::start_with_tls(server, tls::EVERYBODY),
            None => Postgres::start(),
        };
        let wire = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
        let mut cluster = Self {
            nodes: Vec::new(),
            redis,
            redis_url,
            postgres,
            wire,
            fault: fault.into(),
            folder: TempDir::new().expect("a folder"),
        };
        cluster.nodes = (0..NODES).map(|_| cluster.start_node()).collect();
        cluster
    }

    /// One more node.
    fn start_node(&self) -> Process {
        self.start_node_with(&[])
    }

    /// One more node, with these options.
    fn start_node_with(&self, options: &[&str]) -> Process {
        let database = self.postgres.url().replace(
            &self.postgres.port().to_string(),
            &self.wire.port().to_string(),
        );
        self.serve(&(database + &postgres_parameters()), options)
    }

    /// A node on another database.
    fn start_node_on(&self, database: &str) -> Process {
        self.serve(database, &[])
    }

    fn serve(&self, database: &str, options: &[&str]) -> Process {
        let words = [
            "--no-first-key",
            "--database",
            database,
            "--redis",
            &self.redis_url,
            "--log-level",
            "warn",
        ];
        let words = [&words[..], options].concat();
        let vars = [("ANIMAL_STORE_FAULT", &*self.fault)];
        Process::serve_with(PROGRAM, self.folder.path(), &words, &vars)
    }

    /// Runs a command on the data.
    fn command(&self, words: &[&str]) -> Output {
        let database = self.postgres.url() + &postgres_parameters();
        let words = [words, &["--database", &database]].concat();
        run(PROGRAM, self.folder.path(), &words).exits(0)
    }

    /// A new key with these limits: its number and its secret.
    fn key(&self, per_minute: u32, per_day: u32) -> (i64, String) {
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
        let id = made["id"].as_i64().expect("a number");
        (id, made["key"].as_str().expect("a key").to_owned())
    }

    /// A key that no test uses up by accident.
    fn large_key(&self) -> String {
        self.key(1_000_000_000, 1_000_000_000).1
    }

    /// A client of each node, with this key.
    fn clients(&self, key: &str) -> Vec<Client> {
        self.nodes
            .iter()
            .map(|node| node.client(Some(key)))
            .collect()
    }

    /// What the metrics of a node say.
    fn metric(&self, node: usize, name: &str) -> String {
        let page = Client::new(self.nodes[node].admin, None).get("/metrics");
        let text = String::from_utf8(page.body).expect("text");
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_whitespace().last());
        value.unwrap_or_else(|| panic!("no {name}")).to_owned()
    }
}

/// An animal.
fn rex() -> Value {
    json!({"name": "Rex", "categoryId": 1})
}

/// Waits, if need be, until the present minute has so long to go: what must happen in one window has to fit into it.
fn with_a_minute_of(needed: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the nodes go by the same clock")]
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock");
    let left = Duration::from_millis(
        60_000 - u64::try_from(since_epoch.as_millis() % 60_000).expect("small"),
    );
    if left < needed {
        std::thread::sleep(left + Duration::from_millis(50));
    }
}

/// How long one creation may be tried. Whoever is refused for longer than this is never served.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Clients that create animals all the time. Each animal has a name and an `Idempotency-Key` of its own, and what does not
/// work is tried again with the same key on the next node until it works: so every name belongs to exactly one animal.
struct Load {
    /// Replaced when a node is: the next one listens somewhere else.
    nodes: Mutex<Vec<Client>>,
    /// Animals that each node has acknowledged so far.
    created: [AtomicUsize; NODES],
    done: AtomicBool,
}

/// An animal that was acknowledged.
struct Made {
    name: String,
    id: i64,
    /// What came instead of an acknowledgement before.
    failures: Vec<String>,
    /// The acknowledgement was that of an earlier try, which had failed for its client.
    replayed: bool,
}

impl Load {
    fn new(nodes: Vec<Client>) -> Self {
        Self {
            nodes: Mutex::new(nodes),
            created: Default::default(),
            done: AtomicBool::new(false),
        }
    }

    /// Lets so many clients create animals while something else happens, and gives what they have created.
    fn during(&self, clients: usize, happens: impl FnOnce()) -> Vec<Made> {
        std::thread::scope(|scope| {
            let creating: Vec<_> = (0..clients)
                .map(|client| scope.spawn(move || self.create(client)))
                .collect();
            let end = End(&self.done);
            happens();
            drop(end);
            let made = creating
                .into_iter()
                .map(|client| client.join().expect("a client"));
            made.flatten().collect()
        })
    }

    fn create(&self, client: usize) -> Vec<Made> {
        let mut open: Option<(SocketAddr, Connection)> = None;
        let mut made = Vec::new();
        for number in 0.. {
            let name = format!("{client}-{number}");
            let began = Instant::now();
            let mut failures = Vec::new();
            let response = loop {
                let node = (client + failures.len()) % NODES;
                let to = self.nodes.lock().unwrap_or_else(PoisonError::into_inner)[node].clone();
                match try_create(&to, &name, &mut open) {
                    Ok(response) if response.status == 201 => {
                        self.created[node].fetch_add(1, Ordering::Relaxed);
                        break response;
                    }
                    Ok(response) => {
                        response.is_error(503, "unavailable");
                        failures.push("503".to_owned());
                    }
                    Err(error) => failures.push(error),
                }
                assert!(began.elapsed() < TIMEOUT, "{name}: {failures:?}");
                // The first retry comes at once, the next ones leave it time to recover.
                if failures.len() > 1 {
                    std::thread::sleep(Duration::from_millis(20));
                }
            };
            made.push(Made {
                id: response.json()["id"].as_i64().expect("an id"),
                replayed: response.header("idempotent-replayed").is_some(),
                name,
                failures,
            });
            if self.done.load(Ordering::Relaxed) {
                break;
            }
        }
        made
    }
}

/// Tells the clients to end, also when the test fails: they would be waited for.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One try, on the connection that is open if it leads there.
fn try_create(
    node: &Client,
    name: &str,
    open: &mut Option<(SocketAddr, Connection)>,
) -> Result<Response, String> {
    let mut connection = match open.take() {
        Some((address, connection)) if address == node.address => connection,
        _ => TcpStream::connect(node.address)
            .map_err(|error| format!("no connection: {error}"))?
            .into(),
    };
    let response = node
        .request("POST", "/v1/pets")
        .header("Idempotency-Key", name)
        .json(&json!({"name": name, "categoryId": 1}))
        .try_send_on(&mut connection)?;
    *open = Some((node.address, connection));
    Ok(response)
}

/// Looks for every acknowledged animal in the database: the names that are lost, and those that are there twice or that
/// were not acknowledged.
fn lost_and_doubled(postgres: &Postgres, made: &[Made]) -> (Vec<String>, Vec<String>) {
    let rows = postgres.psql("postgres", "select name, id from pets order by id");
    let mut stored: HashMap<&str, Vec<i64>> = HashMap::new();
    for row in rows.lines() {
        let (name, id) = row.split_once('|').expect("two columns");
        let id = id.parse().expect("a number");
        stored.entry(name).or_default().push(id);
    }
    let (mut lost, mut doubled) = (Vec::new(), Vec::new());
    for animal in made {
        let ids = stored.remove(&*animal.name).unwrap_or_default();
        if !ids.contains(&animal.id) {
            lost.push(format!("{} as {}, not in {ids:?}", animal.name, animal.id));
        } else if ids.len() > 1 {
            doubled.push(format!("{} as {ids:?}", animal.name));
        }
    }
    doubled.extend(
        stored
            .keys()
            .map(|name| format!("{name}, never acknowledged")),
    );
    (lost, doubled)
}
