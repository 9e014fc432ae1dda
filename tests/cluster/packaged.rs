//! What `packaging/` describes, without containers: the settings of its nodes and its nginx, with servers that the tests start.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use harness::{Client, Postgres, Process, Redis, StopOnDrop, eventually, free_port, run};
use serde_json::json;
use tempfile::TempDir;

use crate::{NODES, PROGRAM, ensure_minute_left};

const COMPOSE: &str = include_str!("../../packaging/compose.yaml");
const NGINX: &str = include_str!("../../packaging/nginx.conf");

/// The rest of the configuration: nginx writes only to a folder of the test, whichever user runs it.
const NGINX_MAIN: &str = "daemon off; pid pid; error_log stderr; events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include nodes.conf;
}";

struct Nginx {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Nginx {
    fn in_front_of(nodes: &[Process]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut settings = replaced(NGINX, "listen 80;", &format!("listen {address};"));
        for (number, node) in (1..).zip(nodes) {
            let name = format!("node{number}:8080");
            settings = replaced(&settings, &name, &node.address.to_string());
        }
        fs::write(folder.path().join("nginx.conf"), NGINX_MAIN).expect("a file");
        fs::write(folder.path().join("nodes.conf"), settings).expect("a file");
        // Debian installs it there, which may not be in the path.
        let packaged = Path::new("/usr/sbin/nginx");
        let program = if packaged.exists() {
            packaged
        } else {
            Path::new("nginx")
        };
        let child = Command::new(program)
            .arg("-p")
            .arg(folder.path())
            .args(["-c", "nginx.conf"])
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx");
        eventually(Duration::from_secs(5), "nginx listens", || {
            std::net::TcpStream::connect(address).is_ok()
        });
        Self {
            child,
            address,
            _folder: folder,
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers exit with it only after a graceful shutdown.
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.child.wait();
    }
}

fn replaced(text: &str, what: &str, with: &str) -> String {
    assert!(text.contains(what), "no {what}: {text}");
    text.replace(what, with)
}

/// The environment of a node, with the hosts of this test.
fn settings(postgres: &Postgres, redis: &Redis) -> Vec<(String, String)> {
    let value = |name: &str, value: &str| match name {
        "ANIMAL_STORE_DATABASE" => postgres.url(),
        "ANIMAL_STORE_REDIS" => redis.url(),
        "ANIMAL_STORE_TRUSTED_PROXY" => "127.0.0.0/8".to_owned(),
        _ => value.trim_matches('"').to_owned(),
    };
    let setting = |line: &str| {
        let (name, written) = line.trim().split_once(": ")?;
        let is_ours = name.starts_with("ANIMAL_STORE_");
        is_ours.then(|| (name.to_owned(), value(name, written)))
    };
    COMPOSE.lines().filter_map(setting).collect()
}

/// Everything that `packaging/` describes.
struct Deployment {
    nodes: Vec<Process>,
    nginx: Nginx,
    settings: Vec<(String, String)>,
    postgres: Postgres,
    _redis: Redis,
    folder: TempDir,
}

impl Deployment {
    fn start() -> Self {
        let (postgres, redis) = (Postgres::start(), Redis::start());
        let settings = settings(&postgres, &redis);
        assert!(settings.len() >= 5, "{settings:?}");
        let folder = TempDir::new().expect("a folder");
        let nodes: Vec<_> = (0..NODES)
            .map(|_| Process::serve_with(PROGRAM, folder.path(), &[], &vars(&settings)))
            .collect();
        Self {
            nginx: Nginx::in_front_of(&nodes),
            nodes,
            settings,
            postgres,
            _redis: redis,
            folder,
        }
    }

    /// A client of nginx, with a key of this plan.
    fn client(&self, plan: &[&str]) -> Client {
        let database = self.postgres.url();
        let create = [
            "keys",
            "create",
            "--name",
            "me",
            "--database",
            &database,
            "--plan",
        ];
        let key = run(PROGRAM, self.folder.path(), &[&create[..], plan].concat());
        let key = key.exits(0).stdout.trim_end().to_owned();
        Client::new(self.nginx.address, Some(key))
    }

    /// Shuts a node down, and starts it again where it was.
    fn restart(&mut self, node: usize) {
        let address = self.nodes[node].address.to_string();
        self.nodes[node].signal("TERM");
        assert_eq!(
            self.nodes[node].ends_within(Duration::from_secs(12)),
            Some(0)
        );
        let args = [
            "serve",
            "--listen",
            &address,
            "--admin-listen",
            "127.0.0.1:0",
        ];
        let (folder, vars) = (self.folder.path(), vars(&self.settings));
        self.nodes[node] = Process::start(PROGRAM, folder, &args, &vars);
    }
}

fn vars(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect()
}

/// What one client saw: creations, those it sent again, and what failed all the same.
#[derive(Default)]
struct Tally {
    created: usize,
    retried: usize,
    failed: Vec<String>,
}

/// Creates animals, each with one retry, and reads in between, until `over` is set.
fn create_and_read(client: &Client, number: usize, all: &AtomicUsize, over: &AtomicBool) -> Tally {
    let mut seen = Tally::default();
    while !over.load(Ordering::Relaxed) {
        let token = format!("{number}-{}", seen.created);
        let create = || {
            let request = client.request("POST", "/v1/pets");
            let request = request.header("Idempotency-Key", &token);
            request
                .json(&json!({"name": token, "categoryId": 1}))
                .send()
        };
        seen.created += 1;
        all.fetch_add(1, Ordering::Relaxed);
        if create().status != 201 {
            seen.retried += 1;
            let again = create();
            if again.status != 201 {
                seen.failed.push(again.to_string());
            }
        }
        let list = client.get("/v1/pets?limit=1");
        if list.status != 200 {
            seen.failed.push(list.to_string());
        }
    }
    seen
}

#[test]
fn a_client_that_retries_once_sees_no_failure_during_a_rolling_restart() {
    let mut deployment = Deployment::start();
    let limits = ["--per-minute", "1000000000", "--per-day", "1000000000"];
    let client = deployment.client(&[&["enterprise"][..], &limits].concat());
    let (over, all) = (AtomicBool::new(false), AtomicUsize::new(0));
    // For at least a second, and longer on a busy machine.
    let under_load = || {
        let before = all.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(1));
        eventually(Duration::from_secs(30), "load", || {
            all.load(Ordering::Relaxed) > before + 75
        });
    };
    let seen: Vec<Tally> = std::thread::scope(|scope| {
        let end = StopOnDrop(&over);
        let clients: Vec<_> = (0..8)
            .map(|number| {
                scope.spawn({
                    let (client, all, over) = (&client, &all, &over);
                    move || create_and_read(client, number, all, over)
                })
            })
            .collect();
        for node in (0..2).flat_map(|_| 0..NODES) {
            under_load();
            deployment.restart(node);
        }
        under_load();
        drop(end);
        let seen = clients
            .into_iter()
            .map(|client| client.join().expect("a client"));
        seen.collect()
    });
    let created: usize = seen.iter().map(|seen| seen.created).sum();
    let retried: usize = seen.iter().map(|seen| seen.retried).sum();
    let failed: Vec<_> = seen.into_iter().flat_map(|seen| seen.failed).collect();
    println!(
        "{created} creations, {retried} sent again, {} failed",
        failed.len()
    );
    assert!(created > 500, "{created}");
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn three_nodes_behind_nginx_are_one_service() {
    let mut deployment = Deployment::start();
    let client = deployment.client(&["pro"]);

    // Each goes to another node.
    for id in 1..=6 {
        let made = client.create(&json!({"name": "Rex", "categoryId": 1}));
        let place = format!("http://127.0.0.1:8080/v1/pets/{id}");
        assert_eq!((made.status, made.header("location")), (201, Some(&*place)));
    }
    let left = |response: &harness::Response| response.rate().1;
    ensure_minute_left(Duration::from_secs(10));
    let first = left(&client.get("/v1/pets"));
    for sent in 1..=12 {
        let response = client.get("/v1/pets?limit=2");
        assert_eq!((response.status, response.ids()), (200, vec![1, 2]));
        assert_eq!(left(&response), first - sent);
        let next = response.next().expect("more");
        assert!(next.starts_with("http://127.0.0.1:8080/v1/pets?"), "{next}");
    }
    for length in [20_000, 1_000_000] {
        let large = json!({"name": "x".repeat(length), "categoryId": 1});
        client.create(&large).is_error(413, "body_too_large");
    }
    let url = |length: usize| format!("/v1/pets?{}", "x".repeat(length - "/v1/pets?".len()));
    assert_eq!(client.get(&url(8_190)).status, 200);
    client.get(&url(8_300)).is_error(414, "uri_too_long");
    let mut without_host = client.connect();
    without_host.send(b"GET /livez HTTP/1.0\r\n\r\n");
    let response = without_host.response();
    assert_eq!(response.status, 200, "{response}");

    deployment.nodes[1].kill();
    for _ in 0..12 {
        assert_eq!(client.get("/v1/pets").status, 200);
    }
}
