//! The connections of a node to PostgreSQL: polls have their own, and a read that is cancelled costs none.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use animal_store::key::Secret;
use animal_store::pet::PetId;
use animal_store::store::{KeyRecord, Mode, Store};
use harness::{Postgres, Process, SqlClient, eventually, run};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::{Cluster, PROGRAM};

fn lock_for_readers(url: &str, table: &str) -> SqlClient {
    let locker = SqlClient::open(&url.parse().expect("a database"));
    let lock = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
    locker.change(&lock).expect("a lock");
    locker
}

#[test]
fn a_read_that_is_cancelled_does_not_close_its_connection() {
    let postgres = Postgres::start();
    let url = postgres.url();
    let connections = || -> BTreeSet<String> {
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'animal-store'";
        let pids = postgres.psql("postgres", sql);
        pids.lines().map(str::to_owned).collect()
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let database = url.parse().expect("a database");
    let opening = Store::open(&database, Mode::Serve { migrate: true }, 10);
    let store = runtime.block_on(opening).expect("a store");
    let mut known = BTreeSet::new();
    for round in 0..3 {
        let locker = lock_for_readers(&url, "pets");
        runtime.block_on(async {
            for id in 1..=10 {
                let reading = timeout(Duration::from_millis(30), store.current_pet(PetId(id)));
                reading.await.expect_err("the table is locked");
            }
        });
        locker.unlock();
        let read = runtime.block_on(async {
            // Those that were in flight end.
            sleep(Duration::from_millis(500)).await;
            store.current_pet(PetId(1)).await
        });
        assert!(read.expect("a read").is_none());
        let now = connections();
        assert!(known.is_subset(&now), "{known:?}, round {round}: {now:?}");
        known = now;
    }
    assert!(known.len() > 3, "{known:?}");
}

#[test]
fn keys_that_cannot_be_looked_up_are_failures_so_a_database_that_is_down_gets_few_connections() {
    let postgres = Postgres::start();
    let (url, folder) = (postgres.url(), TempDir::new().expect("a folder"));
    let node = Process::serve(PROGRAM, folder.path(), &["--database", &url]);
    postgres.stop_immediately();
    let mut looked_up = 0;
    for _ in 0..130 {
        let unknown = Secret::generate().expect("randomness");
        let client = node.client(Some(unknown.reveal()));
        match client.get("/v1/pets").status {
            503 => looked_up += 1,
            status => assert_eq!(status, 429),
        }
    }
    // 60 a minute, and a minute may end meanwhile.
    assert!((60..=120).contains(&looked_up), "{looked_up}");
}

#[test]
fn polls_that_wait_for_a_lock_do_not_clear_the_cache() {
    let cluster = Cluster::start();
    let client = &cluster.clients(&cluster.large_key())[0];
    client.create_many(3);
    // The creations have been applied, so the page stays in the cache.
    std::thread::sleep(Duration::from_secs(1));
    let get = || client.get("/v1/pets?limit=1");
    assert_eq!(get().status, 200);
    // Without the page in the cache, it is 503.
    let locker = lock_for_readers(&cluster.postgres.url(), "api_keys, pets");
    let raise = "update revisions set number = number + 1 where what = 'api_keys'";
    cluster.postgres.psql("postgres", raise);
    let failures = || -> u32 {
        let name = "animal_store_background_failures_total{task=\"poll\"}";
        cluster.metric(0, name).parse().expect("a number")
    };
    eventually(Duration::from_secs(20), "three polls have failed", || {
        let cached = get();
        assert_eq!(cached.status, 200, "{cached}");
        failures() >= 3
    });
    locker.unlock();
}

#[test]
fn a_poll_whose_connection_hangs_does_not_delay_a_revocation() {
    let mut cluster = Cluster::start();
    cluster.nodes.truncate(1);
    let (id, key) = cluster.key(100_000, 100_000);
    let client = &cluster.clients(&key)[0];
    assert_eq!(client.get("/v1/pets").status, 200);
    // So that there is time to find the session while it reads the change.
    cluster.proxy.delay(Duration::from_millis(500));
    cluster.command(&["keys", "revoke", &id.to_string()]);
    let mut session = String::new();
    eventually(Duration::from_secs(10), "a poll reads the change", || {
        let begun = "select pid from pg_stat_activity
             where state = 'idle in transaction' and query like 'SET LOCAL statement_timeout%'";
        session = cluster.postgres.psql("postgres", begun);
        !session.is_empty()
    });
    run("kill", cluster.folder.path(), &["-STOP", &session]).exits(0);
    cluster.proxy.delay(Duration::ZERO);
    eventually(Duration::from_secs(5), "the revocation", || {
        client.get("/v1/pets").status == 401
    });
}

#[test]
fn changes_that_take_long_to_read_are_applied_by_a_poll_that_waits_longer_and_are_no_outage() {
    const PAGE: &str = "/v1/pets?limit=1";
    let mut cluster = Cluster::start();
    cluster.nodes.truncate(1);
    let [(_, other), (id, revoked)] = [(); 2].map(|()| cluster.key(100_000, 100_000));
    let [other, revoked] = [other, revoked].map(|key| cluster.nodes[0].client(Some(&key)));
    other.create_many(3);
    let slow = "create table delay (seconds float); insert into delay values (0);
         alter table api_keys rename to slow_keys;
         create view api_keys as select slow_keys.* from slow_keys, (select pg_sleep(seconds) from delay) as slept";
    cluster.postgres.psql("postgres", slow);
    // Prepared statements still read the table. Lost connections are an outage, after which the cache is cleared.
    cluster.proxy.cut_now();
    std::thread::sleep(Duration::from_secs(3));
    // The statement timeout has to expire early enough for the reply to arrive.
    cluster.proxy.delay(Duration::from_millis(50));
    assert_eq!(other.get(PAGE).status, 200);
    assert_eq!(revoked.get("/v1/pets/1").status, 200);
    let revocation = format!(
        "update delay set seconds = 4;
         update revisions set number = number + 1 where what = 'api_keys';
         update slow_keys set revoked_at = created_at, revision = number from revisions where what = 'api_keys' and id = {id}"
    );
    cluster.postgres.psql("postgres", &revocation);
    eventually(Duration::from_secs(15), "the revocation", || {
        revoked.get("/v1/pets/1").status == 401
    });
    let _locker = lock_for_readers(&cluster.postgres.url(), "pets");
    assert_eq!(other.get(PAGE).status, 200, "it is no longer cached");
}

#[test]
fn requests_that_use_all_connections_neither_delay_a_revocation_nor_clear_the_cache() {
    let postgres = Postgres::start();
    let (url, folder) = (postgres.url(), TempDir::new().expect("a folder"));
    let database = ["--database", &url];
    let node = [&["--no-first-key"], &database[..]].concat();
    let node = Process::serve(PROGRAM, folder.path(), &node);
    let keys = |args: &[&str]| {
        let args = [&["keys"], args, &database].concat();
        run(PROGRAM, folder.path(), &args).exits(0).stdout
    };
    let limits = ["--per-minute", "100000", "--per-day", "1000000"];
    let [busy, revoked] = ["busy", "revoked"]
        .map(|name| ["create", "--name", name, "--plan", "enterprise"])
        .map(|args| keys(&[&args[..], &limits].concat()))
        .map(|key| node.client(Some(key.trim_end())));
    busy.create_many(3);
    // The creations have been applied, so the page stays in the cache.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(revoked.get("/v1/pets?limit=1").status, 200);
    let locker = lock_for_readers(&url, "orders, pets");
    let (ended, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..60 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let status = busy.get("/v1/store/orders").status;
                    failed.fetch_or(status == 503, Ordering::Relaxed);
                }
            });
        }
        eventually(Duration::from_secs(10), "no connection is free", || {
            failed.load(Ordering::Relaxed)
        });
        let sessions =
            "select count(*) from pg_stat_activity where application_name = 'animal-store'";
        let sessions: u32 = postgres.psql("postgres", sessions).parse().unwrap_or(0);
        let until = |limit: Duration, status| {
            let began = Instant::now();
            loop {
                std::thread::sleep(Duration::from_millis(100));
                let response = revoked.get("/v1/pets?limit=1");
                if response.status != status || began.elapsed() > limit {
                    return response;
                }
            }
        };
        let cached = until(Duration::from_secs(4), 200);
        keys(&["revoke", "2"]);
        let rejected = until(Duration::from_secs(5), 200);
        ended.store(true, Ordering::Relaxed);
        locker.unlock();
        assert_eq!(cached.status, 200, "{cached}");
        assert_eq!(rejected.status, 401, "{rejected}");
        assert!((16..=20).contains(&sessions), "{sessions}");
    });
}

/// PostgreSQL detects on its own that the machine of a client is gone: the client sets how soon.
#[test]
fn the_server_probes_idle_connections_after_ten_seconds() {
    let postgres = Postgres::start();
    let database = postgres.url().parse().expect("a database");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let opening = Store::open(&database, Mode::Serve { migrate: true }, 10);
    let _store = runtime.block_on(opening).expect("a store");
    // Connections as the kernel lists them: the number, the local and the remote address, the state, the queues, and the timer with
    // the time left, in hundredths of a second.
    let port = format!(":{:04X}", postgres.port());
    let timers = || -> Vec<u32> {
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("sockets");
        let fields = sockets
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let of_server = fields.filter(|fields| fields[1].ends_with(&port) && fields[3] == "01");
        of_server
            .filter_map(|fields| fields[5].strip_prefix("02:").map(str::to_owned))
            .map(|left| u32::from_str_radix(&left, 16).expect("a number"))
            .collect()
    };
    eventually(Duration::from_secs(5), "keepalive timers", || {
        let timers = timers();
        !timers.is_empty() && timers.iter().all(|left| *left <= 1_000)
    });
}

#[test]
fn a_read_that_conflicts_with_a_transaction_is_repeated_on_the_same_connection() {
    let postgres = Postgres::start();
    let url = postgres.create_database("shop");
    let folder = TempDir::new().expect("a folder");
    let on = |args: &str| {
        let args: Vec<_> = args.split(' ').chain(["--database", &url]).collect();
        run(PROGRAM, folder.path(), &args).exits(0)
    };
    on("migrate");
    on("keys create --name a --plan free");
    // Every other read of a row fails, as reads of other databases may, and of this one with another isolation level.
    postgres.psql(
        "shop",
        "INSERT INTO pets (id, name, category_id, status) VALUES (1, 'Rex', 1, 'available');
         CREATE SEQUENCE reads;
         CREATE FUNCTION conflicts() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
         BEGIN
             IF nextval('reads') % 2 = 1 THEN RAISE EXCEPTION 'a conflict' USING ERRCODE = '40001'; END IF;
             RETURN true;
         END $$;
         ALTER TABLE pets ENABLE ROW LEVEL SECURITY; CREATE POLICY conflicts ON pets USING (conflicts());
         ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY; CREATE POLICY conflicts ON api_keys USING (conflicts());
         CREATE ROLE clerk LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk",
    );
    let database = url
        .replace("animals@", "clerk@")
        .parse()
        .expect("a database");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (pets, keys, connections) = runtime.block_on(async {
        let opening = Store::open(&database, Mode::Serve { migrate: false }, 10);
        let store = opening.await.expect("a store");
        let (mut pets, mut keys, mut connections) = (0, 0, BTreeSet::new());
        for _ in 0..5 {
            let pet = store.current_pet(PetId(1)).await.expect("an animal");
            pets += usize::from(pet.is_some());
            let each = |chunk: Vec<KeyRecord>| keys += chunk.len();
            store.keys_since(-1, each).await.expect("keys");
            connections.insert(store.revisions().await.expect("revisions").connected_at);
        }
        (pets, keys, connections.len())
    });
    assert_eq!((pets, keys, connections), (5, 5, 1));
    let reads = postgres.psql("shop", "SELECT last_value FROM reads");
    assert!(
        reads.parse::<u32>().expect("a number") >= 20,
        "{reads} reads"
    );
}

#[test]
fn a_node_whose_database_was_replaced_by_a_copy_ends() {
    let postgres = Postgres::start();
    let folder = TempDir::new().expect("a folder");
    let mut node = Process::serve(PROGRAM, folder.path(), &["--database", &postgres.url()]);
    postgres.psql("postgres", "UPDATE deployment SET id = 'another'");
    assert_eq!(node.ends_within(Duration::from_secs(10)), Some(1));
    let log = node.log();
    assert!(
        log.contains("a copy has replaced the content of the database"),
        "{log}"
    );
}
