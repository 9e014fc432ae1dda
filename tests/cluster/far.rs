//! A PostgreSQL that is far away: every round trip to it takes 400 ms.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{Client, Postgres, Process, Proxy, Response, SqlClient, eventually, run};
use serde_json::json;
use tempfile::TempDir;

use crate::PROGRAM;

/// How long a round trip takes.
const ROUND_TRIP: Duration = Duration::from_millis(400);

/// How long a chunk of keys may take.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(30);

/// More than 80 chunks of 500.
const MANY_KEYS: u32 = 40_500;

/// How soon after its connections were cut a node reads from the database again.
const RECOVERY_TIME: Duration = Duration::from_secs(10);

#[test]
fn a_node_reads_and_writes_a_database_that_is_far_away_and_does_so_again_after_a_cut() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let near = postgres.url();
    let on = |args: &str| {
        let args: Vec<_> = args.split(' ').chain(["--database", &near]).collect();
        run(PROGRAM, folder.path(), &args).exits(0).stdout
    };
    on("migrate");
    let key = on("keys create --name a --plan business");
    let creations = AtomicUsize::new(0);
    for parameters in ["", "?connect_timeout=10"] {
        let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
        proxy.delay(ROUND_TRIP);
        let far = near.replace(&postgres.port().to_string(), &proxy.port().to_string());
        let far = format!("{far}{parameters}");
        let node = Process::serve(PROGRAM, folder.path(), &["--database", &far]);
        let client = node.client(Some(key.trim_end()));
        // It does not exist, so it is never cached.
        let reads = || client.get("/v1/pets/999").status == 404;
        eventually(RECOVERY_TIME, "the node reads", reads);
        let stored = || {
            let sum = "select coalesce(sum(requests), 0) from usage_by_day";
            postgres
                .psql("postgres", sum)
                .parse::<u32>()
                .expect("a sum")
        };
        let create = || {
            let animal = json!({"name": "Rex", "categoryId": 1});
            let name = format!("{}", creations.fetch_add(1, Ordering::Relaxed));
            let request = client.request("POST", "/v1/pets").json(&animal);
            request.header("Idempotency-Key", &name).send().status
        };
        let rounds = ["the node writes", "the node writes again"];
        for what in rounds.into_iter().filter(|_| parameters.is_empty()) {
            eventually(RECOVERY_TIME, what, || create() == 201);
            // Immediately, on an open connection. The round trips take most of the time that a creation has, so it may fail if the
            // machine pauses.
            assert!((0..3).any(|_| create() == 201));
            let before = stored();
            reads();
            eventually(RECOVERY_TIME, "the usage is stored", || stored() > before);
            proxy.cut_now();
            eventually(RECOVERY_TIME, "the node reads again", reads);
        }
        proxy.cut_now();
        eventually(RECOVERY_TIME, "the node reads again", reads);
    }
}

#[test]
fn commands_write_to_a_database_that_is_far_away() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let near = postgres.url();
    run(PROGRAM, folder.path(), &["migrate", "--database", &near]).exits(0);
    let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
    proxy.delay(ROUND_TRIP);
    let far = near.replace(&postgres.port().to_string(), &proxy.port().to_string());
    for args in ["keys create --name a --plan free", "keys set-plan 1 pro"] {
        let args: Vec<_> = args.split(' ').chain(["--database", &far]).collect();
        run(PROGRAM, folder.path(), &args).exits(0);
    }
}

/// An address that nobody listens on, as long as no other process gets the same port.
fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, harness::free_port()))
}

#[test]
fn a_node_reads_all_keys_however_long_they_take_altogether() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let near = postgres.url();
    run(PROGRAM, folder.path(), &["migrate", "--database", &near]).exits(0);
    SqlClient::open(&near.parse().expect("a database")).add_keys(MANY_KEYS);
    let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
    proxy.delay(ROUND_TRIP);
    let far = near.replace(&postgres.port().to_string(), &proxy.port().to_string());
    let socket = folder.path().join("notify");
    let notified = UnixDatagram::bind(&socket).expect("a socket");
    notified.set_nonblocking(true).expect("a socket");
    let admin = free_address();
    let began = Instant::now();
    let node = std::thread::scope(|scope| {
        // While it reads the keys.
        let alive = scope.spawn(|| {
            std::thread::sleep(CHUNK_TIMEOUT - Duration::from_secs(5));
            let asked = Instant::now();
            let alive = Client::new(admin, None).get("/livez").status;
            (alive, asked.elapsed() < Duration::from_secs(3))
        });
        let admin = admin.to_string();
        let serve = "serve --listen 127.0.0.1:0 --admin-listen";
        let serve: Vec<&str> = serve
            .split(' ')
            .chain([&*admin, "--database", &far])
            .collect();
        let vars = [("NOTIFY_SOCKET", socket.to_str().expect("text"))];
        let node = Process::start(PROGRAM, folder.path(), &serve, &vars);
        assert_eq!(alive.join().expect("a response"), (200, true));
        node
    });
    let took = began.elapsed();
    let mut extensions = 0;
    let mut datagram = [0; 4096];
    while let Ok(size) = notified.recv(&mut datagram) {
        extensions += u64::from(datagram[..size].starts_with(b"EXTEND_TIMEOUT_USEC="));
    }
    assert!(
        took > CHUNK_TIMEOUT,
        "only {took:?}: too few keys to prove it"
    );
    assert!(
        extensions >= took.as_secs() / 5 - 2,
        "{extensions} in {took:?}"
    );
    assert_eq!(node.client(None).get("/v1/pets").status, 401);
    let mut log = String::new();
    eventually(RECOVERY_TIME, "the log says that it is ready", || {
        log += &node.log();
        log.contains("INFO ready")
    });
    // It has read what changed meanwhile.
    assert!(!log.contains("check=\"keys\""), "{log}");
}

#[test]
fn bans_that_begin_together_are_all_stored_far_away_and_usage_does_not_wait_for_them() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let near = postgres.url();
    let on = |args: &str| {
        let args: Vec<_> = args.split(' ').chain(["--database", &near]).collect();
        run(PROGRAM, folder.path(), &args).exits(0).stdout
    };
    on("migrate");
    const KEYS: usize = 12;
    let create = "keys create --name a --plan enterprise --per-minute 1 --per-day 1000";
    let keys: Vec<_> = (0..KEYS)
        .map(|_| on(create).trim_end().to_owned())
        .collect();
    let other = on("keys create --name b --plan free");
    let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
    proxy.delay(ROUND_TRIP);
    let far = near.replace(&postgres.port().to_string(), &proxy.port().to_string());
    let args = ["--database", &far, "--ban-after", "1"];
    let node = Process::serve(PROGRAM, folder.path(), &args);
    std::thread::scope(|scope| {
        for key in &keys {
            let client = node.client(Some(key));
            scope.spawn(move || {
                let mut sent = (0..10).map(|_| client.get("/v1/pets"));
                let is_ban =
                    |response: &Response| response.status == 429 && response.code() == "key_banned";
                assert!(sent.any(|response| is_ban(&response)));
            });
        }
    });
    let count = |what: &str| -> usize {
        let found = postgres.psql("postgres", &format!("SELECT count(*) FROM {what}"));
        found.parse().expect("a number")
    };
    let stored = || count("api_keys WHERE banned_at IS NOT NULL");
    eventually(Duration::from_secs(30), "two bans", || stored() >= 2);
    let used = node.client(Some(other.trim_end())).get("/v1/pets");
    assert_eq!(used.status, 200);
    let usage = || count("usage_by_day JOIN api_keys ON id = api_key_id WHERE name = 'b'");
    eventually(Duration::from_secs(30), "usage", || usage() == 1);
    let before = stored();
    assert!(before < KEYS, "usage has waited for {before} bans");
    eventually(Duration::from_secs(60), "all bans", || stored() == KEYS);
}
