//! A server on an embedded database with a certificate and backups, and one on PostgreSQL and Redis: together they expose every metric.

use std::sync::atomic::{AtomicBool, Ordering};

use harness::{Certificate, Client, Postgres, Process, Redis, run};
use serde_json::json;
use tempfile::TempDir;

use crate::PROGRAM;

/// The admin token of the node on PostgreSQL.
pub(crate) const TOKEN: &str = "a-token-for-prometheus";

/// A running server and its clients.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) clients: Clients,
}

/// The clients of a server, each with a key of its own.
pub(crate) struct Clients {
    /// A client whose key no test exhausts.
    large: Client,
    /// A client on plan free.
    free: Client,
}

pub(crate) struct MonitoredServers {
    pub(crate) embedded: Server,
    pub(crate) node: Server,
    pub(crate) redis: Redis,
    _postgres: Postgres,
    _folder: TempDir,
}

impl MonitoredServers {
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().expect("a folder");
        let (postgres, redis) = (Postgres::start(), Redis::start());
        let (file, database, cache) = ("sqlite:animals.db", postgres.url(), redis.url());
        let certificate = Certificate::new();
        certificate.write(folder.path());
        let trust = certificate.client();
        let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
        let backups = ["--backup-folder", "."];
        let node = ["--redis", &cache, "--admin-token", TOKEN];
        Self {
            embedded: Server::start(&folder, file, &[&tls[..], &backups].concat(), |client| {
                client.over(&trust)
            }),
            node: Server::start(&folder, &database, &node, |client| client),
            redis,
            _postgres: postgres,
            _folder: folder,
        }
    }
}

impl Server {
    /// Starts a server. `connect` makes a client connect as the server wants it.
    fn start(
        folder: &TempDir,
        database: &str,
        args: &[&str],
        connect: impl Fn(Client) -> Client,
    ) -> Self {
        let args = [&["--no-first-key", "--database", database], args].concat();
        let process = Process::serve(PROGRAM, folder.path(), &args);
        let client = |plan: &[&str]| {
            let create = ["keys", "create", "--name", "a", "--database", database];
            let made = run(PROGRAM, folder.path(), &[&create[..], plan].concat());
            connect(process.client(Some(made.exits(0).stdout.trim_end())))
        };
        let limits = ["--per-minute", "1000000", "--per-day", "1000000"];
        let clients = Clients {
            large: client(&[&["--plan", "enterprise"][..], &limits].concat()),
            free: client(&["--plan", "free"]),
        };
        Self { process, clients }
    }

    /// The metrics page.
    pub(crate) fn metrics(&self) -> String {
        let page = Client::new(self.process.admin, Some(TOKEN.into())).get("/metrics");
        assert_eq!(page.status, 200, "{page}");
        String::from_utf8(page.body).expect("text")
    }
}

impl Clients {
    /// One request of each kind with the large key, one without a key and one with the key of plan free.
    pub(crate) fn use_once(&self) {
        let (client, anonymous) = (&self.large, self.large.with_key(None));
        let made = client.create(&json!({"name": "Rex", "categoryId": 1}));
        assert_eq!(made.status, 201, "{made}");
        for path in ["/v1/pets?limit=2", "/v1/pets/1", "/v1/store/orders"] {
            let response = client.get(path);
            assert_eq!(response.status, 200, "{response}");
        }
        let wrong = client.get("/v1/pets?limit=0");
        wrong.is_error(400, "invalid_parameter");
        client.get("/v1/cats").is_error(404, "not_found");
        for path in ["/docs", "/livez"] {
            let response = anonymous.get(path);
            assert_eq!(response.status, 200, "{response}");
        }
        anonymous.get("/v1/pets");
        self.free.get("/v1/pets");
    }

    /// Requests until `done`: soon the key of plan free is banned, and the address has used up its failures.
    pub(crate) fn load(&self, done: &AtomicBool) {
        let anonymous = self.large.with_key(None);
        while !done.load(Ordering::Relaxed) {
            self.use_once();
            for client in [&self.free, &anonymous] {
                // Handshakes would take most of the time.
                let mut connection = client.connect();
                for _ in 0..50 {
                    client.request("GET", "/v1/pets").send_on(&mut connection);
                }
            }
        }
    }
}
