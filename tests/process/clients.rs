//! Existing HTTP clients, with bodies that are far too large: each gets the response, every time.

use std::process::Command;

use harness::Process;

use crate::{PROGRAM, folder, large_key};

/// How often each client sends each body.
const TRIES: usize = 10;

/// The target of the request, and the expected status.
struct Case<'a> {
    url: &'a str,
    key: &'a str,
    status: &'a str,
    /// The address that a failed authentication counts against: a separate one, so that it is not 429.
    address: &'a str,
    size: &'a str,
}

/// Runs a client, and returns what it printed: a status for each try.
type Client = fn(&Case<'_>) -> String;

fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the client runs");
    String::from_utf8(output.stdout).expect("text")
}

fn script(program: &str, args: &[&str], case: &Case<'_>) -> String {
    let mut command = Command::new(program);
    command
        .args(args)
        .args([case.url, case.key, case.address, case.size]);
    printed(command.arg(TRIES.to_string()))
}

const FETCH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/process/clients/fetch.mjs"
);
const PYTHON: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/process/clients/client.py"
);

/// curl sends `Expect: 100-continue` with a large body, unless the header is removed.
fn curl(expect: &str, case: &Case<'_>) -> String {
    let folder = folder();
    let body = folder.path().join("body");
    let size = case.size.parse().expect("a size");
    std::fs::write(&body, vec![b'x'; size]).expect("a file");
    let body = format!("@{}", body.display());
    let key = format!("Authorization: Bearer {}", case.key);
    let address = format!("X-Forwarded-For: {}", case.address);
    let curl = || {
        let mut curl = Command::new("curl");
        curl.args([
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}\n",
            "--data-binary",
            &body,
        ]);
        curl.args(["-H", &key, "-H", &address, "-H", expect]);
        printed(curl.args(["-H", "Content-Type: application/json", case.url]))
    };
    (0..TRIES).map(|_| curl()).collect()
}

#[test]
fn every_client_gets_the_response_to_a_body_that_is_far_too_large() {
    let clients: [(&str, Client); 5] = [
        ("fetch", |case| script("node", &[FETCH], case)),
        ("urllib", |case| {
            script("python3", &[PYTHON, "urllib"], case)
        }),
        ("http.client", |case| {
            script("python3", &[PYTHON, "http.client"], case)
        }),
        ("curl", |case| curl("X-Nothing: x", case)),
        ("curl without Expect", |case| curl("Expect:", case)),
    ];
    let folder = folder();
    let key = large_key(folder.path());
    let process = Process::serve(PROGRAM, folder.path(), &["--trusted-proxy", "127.0.0.1"]);
    let pets = format!("http://{}/v1/pets", process.address);
    let nothing = format!("http://{}/v1/nothing", process.address);
    let mut number = 0;
    for (name, client) in clients {
        for megabytes in [1, 5, 20] {
            let size = (megabytes << 20).to_string();
            for (url, key, status) in [
                (&pets, "wrong", "401"),
                (&nothing, &*key, "404"),
                (&pets, &*key, "413"),
            ] {
                number += 1;
                let address = format!("192.0.2.{number}");
                let (address, size) = (&*address, &*size);
                let case = Case {
                    url,
                    key,
                    status,
                    address,
                    size,
                };
                let seen = client(&case);
                let expected = format!("{}\n", case.status).repeat(TRIES);
                assert_eq!(seen, expected, "{name}, {megabytes} MB, {status}");
            }
        }
    }
}
