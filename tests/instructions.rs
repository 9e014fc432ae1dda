//! How many instructions a request costs the thread that serves it, counted by callgrind from end to end: parsing,
//! authentication, limits, the response, its line in the log. It fails when one grows by more than 4 % over the figure in
//! `instructions.txt`; run with `ANIMAL_STORE_TEST_WRITE=1`, it rewrites the figures, and the commit explains why.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue has failed"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use animal_store::page::{Cursor, Scope};
use harness::{Client, Process, run};
use serde_json::json;
use tempfile::TempDir;

/// Requests of each kind that are counted.
const COUNT: u64 = 300;

/// What a figure may grow by.
const ALLOWED: f64 = 1.04;

fn send(kind: &str, client: &Client, exhausted: &Client, count: u64) {
    let mut connection = client.connect();
    for number in 0..count {
        let request = match kind {
            "list" => client.request("GET", "/v1/pets"),
            "get" => client.request("GET", "/v1/pets/1"),
            "page" => client.request("GET", &cursor(number)),
            "post" => {
                let pet = json!({"name": "Rex", "categoryId": 1});
                let response = client
                    .request("POST", "/v1/pets")
                    .json(&pet)
                    .send_on(&mut connection);
                assert_eq!(response.status, 201, "{response}");
                continue;
            }
            "401" => {
                let address = format!("10.{}.{}.1", number / 250, number % 250);
                let anonymous = client.with_key(None);
                let request = anonymous
                    .request("GET", "/v1/pets")
                    .header("X-Forwarded-For", &address);
                assert_eq!(request.send_on(&mut connection).status, 401);
                continue;
            }
            "429" => {
                assert_eq!(
                    exhausted
                        .request("GET", "/v1/pets")
                        .send_on(&mut connection)
                        .status,
                    429
                );
                continue;
            }
            _ => panic!("{kind}?"),
        };
        assert_eq!(request.send_on(&mut connection).status, 200);
    }
}

/// A page that is in no cache: each begins elsewhere.
fn cursor(number: u64) -> String {
    let id = i64::try_from(100 + number * 3).expect("small");
    let cursor = Cursor::after(id).bound_to(Scope::Pets(None));
    format!("/v1/pets?cursor={cursor}")
}

/// Sends callgrind a command, and waits until it is done.
fn callgrind(process: &Process, args: &[&str]) {
    let pid = format!("--pid={}", process.id());
    let done = Command::new("vgdb")
        .args(["--wait=10", &pid])
        .args(args)
        .output()
        .expect("vgdb runs");
    assert!(done.status.success(), "{done:?}");
}

/// The most instructions that one thread used, in the dumps of this folder.
fn busiest_thread(folder: &Path) -> u64 {
    let totals = |text: String| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("totals: ").map(str::to_owned))?;
        line.trim().parse::<u64>().ok()
    };
    let dumps = fs::read_dir(folder).expect("a folder").filter_map(|file| {
        let path = file.ok()?.path();
        let is_dump = path.file_name()?.to_str()?.starts_with("cg.");
        let found = is_dump
            .then(|| fs::read_to_string(&path).ok().and_then(totals))
            .flatten();
        if is_dump {
            fs::remove_file(&path).ok()?;
        }
        found
    });
    dumps.max().expect("a dump")
}

#[test]
fn no_request_costs_over_4_percent_more_instructions() {
    let program = std::env::var("ANIMAL_STORE_RELEASE_BIN")
        .expect("run this through ./test instructions, which builds it");
    let folder = TempDir::new().expect("a folder");
    run(&program, folder.path(), &["migrate"]).exits(0);
    let key = |args: &[&str]| {
        let create = [
            &["keys", "create", "--name", "a", "--plan", "enterprise"],
            args,
        ]
        .concat();
        run(&program, folder.path(), &create)
            .exits(0)
            .stdout
            .trim()
            .to_owned()
    };
    let unlimited_key = key(&["--per-minute", "1000000000", "--per-day", "1000000000"]);
    let limited_key = key(&["--per-minute", "1", "--per-day", "1"]);
    // One core, so there is one worker, and it serves all requests.
    let out = format!("--callgrind-out-file={}/cg.out", folder.path().display());
    let valgrind = [
        "-c",
        "0",
        "valgrind",
        "--tool=callgrind",
        "--separate-threads=yes",
        "-q",
        &out,
        &program,
    ];
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    let options = ["--ban-after", "0", "--trusted-proxy", "127.0.0.1"];
    let process = Process::start(
        "taskset",
        folder.path(),
        &[&valgrind[..], &serve, &options].concat(),
        // The program starts itself again without it, and valgrind would not follow.
        &[("MIMALLOC_PURGE_DELAY", "0")],
    );
    let (client, exhausted) = (
        process.client(Some(&unlimited_key)),
        process.client(Some(&limited_key)),
    );
    // Enough animals for every page, and the limited key's one request.
    client.create_many(1_200);
    exhausted.get("/v1/pets");

    let mut counted = BTreeMap::new();
    for kind in ["list", "get", "page", "401", "429", "post"] {
        send(kind, &client, &exhausted, 20);
        callgrind(&process, &["zero"]);
        send(kind, &client, &exhausted, COUNT);
        callgrind(&process, &["dump"]);
        counted.insert(kind, busiest_thread(folder.path()) / COUNT);
    }

    let figures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions.txt");
    if std::env::var_os("ANIMAL_STORE_TEST_WRITE").is_some() {
        let text: String = counted
            .iter()
            .map(|(kind, figure)| format!("{kind} {figure}\n"))
            .collect();
        fs::write(&figures, text).expect("a file");
    }
    let committed = fs::read_to_string(&figures).expect("the figures");
    let committed: BTreeMap<&str, u64> = committed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(kind, figure)| (kind, figure.parse().expect("a figure")))
        .collect();
    println!("instructions for each request: {counted:?}; committed: {committed:?}");
    for (kind, figure) in counted {
        let before = committed
            .get(kind)
            .copied()
            .unwrap_or_else(|| panic!("no figure for {kind}"));
        assert!(
            figure as f64 <= before as f64 * ALLOWED,
            "{kind}: {figure} instructions, it was {before}"
        );
    }
}
