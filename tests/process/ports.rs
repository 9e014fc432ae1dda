//! The ports that a server listens on: access to them, and what happens when one is taken.

use std::net::TcpListener;

use harness::{Client, Process};

use crate::{PROGRAM, folder, logged, run};

#[test]
fn the_admin_listener_is_open_to_others_only_with_a_token() {
    let folder = folder();
    let all = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "0.0.0.0:0",
    ];
    let line = run(folder.path(), &[], &all).fails_with(2);
    assert!(
        line.contains("--admin-listen 0.0.0.0:0") && line.contains("--admin-token"),
        "{line}"
    );
    for open in ["[::]:0", "[::ffff:0.0.0.0]:0", "192.0.2.1:0"] {
        run(folder.path(), &[], &["serve", "--admin-listen", open]).fails_with(2);
    }

    let token = "correct-horse-battery";
    let args = [&all[..], &["--admin-token", token]].concat();
    let process = Process::start(PROGRAM, folder.path(), &args, &[]);
    let admin = ([127, 0, 0, 1], process.admin.port()).into();
    let ask = |key: Option<&str>, page: &str| Client::new(admin, key.map(str::to_owned)).get(page);
    ask(None, "/metrics").is_error(401, "missing_admin_token");
    let wrong = "wrong-horse-battery";
    let rejected = ask(Some(wrong), "/metrics");
    rejected.is_error(401, "invalid_admin_token");
    assert_eq!(rejected.message(), "The admin token is invalid.");
    let log = logged(
        &process,
        &["WARN", "invalid admin token", "client=127.0.0.1"],
    );
    assert!(!log.contains(wrong), "{log}");
    let page = ask(Some(token), "/metrics");
    assert_eq!(page.status, 200, "{page}");
    for health in ["/livez", "/readyz"] {
        assert_eq!(ask(None, health).status, 200);
    }

    // Limited as failed authentications of the API are: 60 a minute for an address, and a minute may end meanwhile. Clients with the
    // token are not affected.
    let rejected = (0..=120)
        .map(|_| ask(Some(wrong), "/metrics"))
        .find(|response| response.status != 401)
        .expect("an end of it");
    rejected.is_error(429, "rate_limited");
    assert!((1..=60).contains(&rejected.number("retry-after")));
    assert_eq!(ask(Some(token), "/metrics").status, 200);
}

#[test]
fn a_client_that_reaches_the_admin_listener_over_ipv4_is_logged_with_its_ipv4_address() {
    let folder = folder();
    let token = "correct-horse-battery";
    let all = ["--admin-listen", "[::]:0", "--admin-token", token];
    let args = [&["serve", "--listen", "127.0.0.1:0"], &all[..]].concat();
    let process = Process::start(PROGRAM, folder.path(), &args, &[]);
    let admin = ([127, 0, 0, 1], process.admin.port()).into();
    let rejected = Client::new(admin, Some("wrong".into())).get("/metrics");
    rejected.is_error(401, "invalid_admin_token");
    logged(&process, &["invalid admin token client=127.0.0.1"]);
}

#[test]
fn a_port_that_is_taken_by_another_server_or_program_is_reported_with_its_option() {
    let folder = folder();
    let free = "127.0.0.1:0";
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let program = TcpListener::bind(free).expect("a port");
    let program = program
        .local_addr()
        .map(|address| (address, program))
        .expect("an address");
    for taken in [server.address, server.admin, program.0] {
        let taken = taken.to_string();
        for (option, other) in [
            ("--listen", "--admin-listen"),
            ("--admin-listen", "--listen"),
        ] {
            let args = ["serve", "--no-first-key", option, &taken, other, free];
            let line = run(folder.path(), &[], &args).fails_with(1);
            assert!(line.contains(&format!("{option} {taken}")), "{line}");
        }
    }
    assert_eq!(server.client(None).get("/readyz").status, 200);
}
