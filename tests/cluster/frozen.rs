//! A server that stops responding without closing its connections, as after a power failure, and another one in its place.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use harness::{Postgres, Process, Proxy, Redis, run};
use tempfile::TempDir;

use crate::PROGRAM;

/// A database, and a key of it.
fn database(folder: &TempDir) -> (Postgres, String) {
    let postgres = Postgres::start();
    let url = postgres.url();
    let on = |args: &str| {
        let args: Vec<_> = args.split(' ').chain(["--database", &url]).collect();
        run(PROGRAM, folder.path(), &args).exits(0).stdout
    };
    on("migrate");
    let key = on("keys create --name a --plan business");
    (postgres, key.trim_end().to_owned())
}

#[test]
fn a_node_with_many_idle_connections_to_a_server_that_froze_soon_uses_the_next_one() {
    let folder = TempDir::new().expect("a folder");
    let (postgres, key) = database(&folder);
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port()));
    let (first, second) = (Proxy::to(target), Proxy::to(target));
    let servers = format!("127.0.0.1:{},127.0.0.1:{}", first.port(), second.port());
    let url = postgres
        .url()
        .replace(&format!("127.0.0.1:{}", postgres.port()), &servers);
    assert!(url.contains(&servers), "{url}");
    let node = Process::serve(PROGRAM, folder.path(), &["--database", &url]);
    let client = node.client(Some(&key));
    // It does not exist, so it is never cached.
    let read = || client.get("/v1/pets/999").status;
    assert_eq!(read(), 404);
    for proxy in [&first, &second] {
        proxy.delay(Duration::from_millis(50));
    }
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(read);
        }
    });
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'animal-store'";
    let idle: u32 = postgres.psql("postgres", idle).parse().expect("a number");
    assert!(idle > 10, "only {idle} connections");
    first.stall();
    // Until the frozen server is noticed, and a connection to the other one is open. There are fifteen connections to the first.
    let failed = (0..20).take_while(|_| read() != 404).count();
    assert!(failed <= 4, "{failed} reads failed");
}

/// A name with two addresses. At the first, a port accepts connections and does not respond; at the next, it leads to a server.
struct TwoAddresses {
    folder: TempDir,
    name: String,
    _proxies: [Proxy; 2],
}

impl TwoAddresses {
    fn of(target: SocketAddr, break_first: fn(&Proxy)) -> Self {
        let first = Proxy::to(target);
        break_first(&first);
        let next = Proxy::at(SocketAddr::from(([127, 0, 0, 2], first.port())), target);
        let folder = TempDir::new().expect("a folder");
        let hosts = "127.0.0.1 several.test\n127.0.0.2 several.test\n";
        std::fs::write(folder.path().join("hosts"), hosts).expect("a file");
        Self {
            folder,
            name: format!("several.test:{}", first.port()),
            _proxies: [first, next],
        }
    }

    /// The arguments of `unshare` that run the program with these arguments where the name exists.
    fn unshare(args: &str) -> Vec<String> {
        let command = format!("mount --bind hosts /etc/hosts && exec {PROGRAM} {args}");
        ["--user", "--map-root-user", "--mount", "sh", "-c", &command]
            .map(str::to_owned)
            .into()
    }
}

#[test]
fn a_name_with_several_addresses_of_which_the_first_does_not_respond_is_used_at_the_next() {
    let folder = TempDir::new().expect("a folder");
    let (postgres, _) = database(&folder);
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port()));
    let addresses = TwoAddresses::of(target, Proxy::stall);
    let url = postgres.url().replace(&target.to_string(), &addresses.name);
    assert!(url.contains(&addresses.name), "{url}");
    let args = TwoAddresses::unshare(&format!("keys list --database '{url}'"));
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let listed = run("unshare", addresses.folder.path(), &args).exits(0);
    assert!(listed.stdout.contains("business"), "{listed:?}");
}

#[test]
fn redis_at_a_name_of_which_the_first_address_does_not_respond_is_used_at_the_next() {
    redis_is_used_at_the_next(Proxy::stall);
}

#[test]
fn redis_at_a_name_of_which_the_first_address_closes_connections_is_used_at_the_next() {
    redis_is_used_at_the_next(Proxy::cut);
}

fn redis_is_used_at_the_next(break_first: fn(&Proxy)) {
    let redis = Redis::start();
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port()));
    let addresses = TwoAddresses::of(target, break_first);
    let args = TwoAddresses::unshare(&format!(
        "serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --redis redis://{}",
        addresses.name
    ));
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let node = Process::start("unshare", addresses.folder.path(), &args, &[]);
    let mut words = node.startup_message.split_whitespace();
    let first_key = words.find(|word| word.starts_with("as_"));
    let client = node.client(first_key);
    assert_eq!(client.get("/v1/pets").status, 200);
    // It was counted there.
    let counters = redis.cli(&["KEYS", "animal-store:*:{1}:*"]);
    assert_eq!(counters.lines().count(), 1, "{counters}");
}
