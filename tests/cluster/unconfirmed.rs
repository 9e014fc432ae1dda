//! Changes whose commit PostgreSQL does not confirm: whoever made them learns that they may have been made.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use harness::{Client, Postgres, Process, Proxy, eventually, run};
use tempfile::TempDir;

use crate::PROGRAM;

const ADMIN_TOKEN: &str = "operators-only-0123456789";

/// A proxy, and the URL of the database through it. Without TLS, because it reads what PostgreSQL is sent.
fn proxy_to(postgres: &Postgres) -> (Proxy, String) {
    let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
    let ports = [postgres.port(), proxy.port()].map(|port| port.to_string());
    let url = postgres.url().replace(&ports[0], &ports[1]) + "?sslmode=disable";
    (proxy, url)
}

#[test]
fn a_command_whose_commit_got_no_reply_says_that_its_outcome_is_unknown() {
    let folder = TempDir::new().expect("a folder");
    let postgres = Postgres::start();
    let (proxy, through_proxy) = proxy_to(&postgres);
    let database = postgres.url();
    run(
        PROGRAM,
        folder.path(),
        &["migrate", "--database", &database],
    )
    .exits(0);
    let line = "{\"name\":\"Rex\",\"categoryId\":1}\n";
    fs::write(folder.path().join("a.ndjson"), line).expect("a file");
    let unknown = "whether the change was made is unknown: PostgreSQL: connection closed";
    let commands = [
        (
            "pets import a.ndjson",
            "whether the animals were imported is unknown",
            "pets",
        ),
        ("keys create --name me --plan pro", unknown, "api_keys"),
        (
            "keys rotate 1 --grace 0s",
            unknown,
            "api_keys WHERE old_until IS NOT NULL",
        ),
        ("orders place --pet 1", unknown, "orders"),
    ];
    for (command, message, changed) in commands {
        proxy.cut_when_client_sends(b"COMMIT\0", 1);
        let words: Vec<&str> = command
            .split(' ')
            .chain(["--database", &through_proxy])
            .collect();
        let line = run(PROGRAM, folder.path(), &words).fails_with(1);
        assert!(line.contains(message), "{command}: {line}");
        // The server may commit a moment after the connection was cut.
        eventually(Duration::from_secs(5), command, || {
            let count = postgres.psql("postgres", &format!("SELECT count(*) FROM {changed}"));
            count.trim() == "1"
        });
    }
}

#[test]
fn a_change_by_the_admin_api_whose_commit_got_no_reply_is_in_the_log() {
    let folder = TempDir::new().expect("a folder");
    let postgres = Postgres::start();
    let (proxy, through_proxy) = proxy_to(&postgres);
    let direct = postgres.url();
    let args = [
        "--no-first-key",
        "--admin-token",
        ADMIN_TOKEN,
        "--database",
        &through_proxy,
    ];
    let node = Process::serve(PROGRAM, folder.path(), &args);
    let create = format!("keys create --name a --plan pro --database {direct}");
    let create: Vec<&str> = create.split(' ').collect();
    run(PROGRAM, folder.path(), &create).exits(0);
    let admin = Client::new(node.admin, Some(ADMIN_TOKEN.into()));
    let revoke = || admin.request("POST", "/api/keys/1/revoke").send();
    // The node has read the new key, in a transaction of its own.
    std::thread::sleep(Duration::from_secs(1));
    proxy.cut_when_client_sends(b"COMMIT\0", 1);
    let unconfirmed = revoke();
    unconfirmed.is_error(503, "unavailable");
    let message = unconfirmed.json()["message"].to_string();
    assert!(message.contains("may have been made"), "{message}");
    // It has been made, so a retry changes nothing, and logs nothing.
    assert_eq!(revoke().status, 200);
    let mut log = String::new();
    eventually(Duration::from_secs(10), "the log", || {
        log += &node.log();
        let line = log
            .lines()
            .find(|line| line.contains("WARN a change may have been made: "));
        line.is_some_and(|line| {
            line.contains(" id=")
                && line.ends_with(r#"subject="POST /api/keys/1/revoke" client=127.0.0.1"#)
        })
    });
}
