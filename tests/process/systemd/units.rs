//! The units in `packaging/`, checked with systemd's own tools and the program.

use std::collections::BTreeSet;
use std::process::Command;

use harness::Process;
use serde_json::json;

use crate::{PROGRAM, folder, large_key, run};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/");

fn unit(name: &str) -> String {
    std::fs::read_to_string(format!("{FOLDER}{name}")).expect(name)
}

fn analyze(args: &[&str]) -> String {
    let output = Command::new("systemd-analyze").args(args).output();
    let output = output.expect("systemd-analyze runs");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_exposure_of_the_service_is_at_most_1_5() {
    let path = format!("{FOLDER}animal-store.service");
    let text = analyze(&["security", "--offline=true", "--no-pager", &path]);
    let last = text.lines().last().unwrap_or_default();
    let level = last.split("animal-store.service: ").nth(1).expect(last);
    let level: f64 = level
        .split(' ')
        .next()
        .and_then(|level| level.parse().ok())
        .expect(last);
    println!("{last}");
    assert!(level <= 1.5, "{text}");
}

#[test]
fn systemd_finds_no_problems_in_the_units() {
    let folder = folder();
    for name in ["animal-store.service", "animal-store.socket"] {
        let text = unit(name).replace("/usr/bin/animal-store", PROGRAM);
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let output = Command::new("systemd-analyze")
        .args([
            "verify",
            "--man=no",
            "animal-store.service",
            "animal-store.socket",
        ])
        .current_dir(folder.path())
        .output()
        .expect("systemd-analyze runs");
    let printed = String::from_utf8_lossy(&output.stderr);
    // It also reads other units of the machine.
    let ours: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("animal-store"))
        .collect();
    assert_eq!(ours, Vec::<&str>::new(), "{printed}");
}

#[test]
fn the_service_issues_no_first_key_and_its_options_exist() {
    let text = unit("animal-store.service");
    let start = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let mut args = start.expect("a command").split(' ');
    assert_eq!(args.next(), Some("/usr/bin/animal-store"));
    let folder = folder();
    let args: Vec<&str> = args.skip(1).collect();
    assert!(args.contains(&"--no-first-key"), "{args:?}");
    let server = Process::serve(PROGRAM, folder.path(), &args);
    assert!(
        !server.startup_message.contains("as_"),
        "{}",
        server.startup_message
    );
}

/// The system calls of a filter of the unit: a set of them, or one.
fn members(set: &str, into: &mut BTreeSet<String>) {
    if !set.starts_with('@') {
        into.insert(set.to_owned());
        return;
    }
    for line in analyze(&["syscall-filter", "--no-pager", set])
        .lines()
        .skip(1)
    {
        let name = line.trim();
        if name.starts_with('@') {
            members(name, into);
        } else if !name.is_empty() && !name.starts_with('#') {
            into.insert(name.to_owned());
        }
    }
}

#[test]
fn a_server_and_its_reload_need_no_system_call_that_the_service_forbids() {
    let text = unit("animal-store.service");
    let mut allowed = BTreeSet::new();
    for line in text.lines() {
        let Some(sets) = line.strip_prefix("SystemCallFilter=") else {
            continue;
        };
        let (removes, sets) = sets
            .strip_prefix('~')
            .map_or((false, sets), |sets| (true, sets));
        let mut named = BTreeSet::new();
        sets.split(' ').for_each(|set| members(set, &mut named));
        match removes {
            true => allowed.retain(|name| !named.contains(name)),
            false => allowed.extend(named),
        }
    }
    assert!(
        allowed.len() > 100 && !allowed.contains("setrlimit"),
        "{allowed:?}"
    );

    let folder = folder();
    let key = large_key(folder.path());
    let strace = |trace| ["-f", "-qq", "-o", trace, "--signal=none"];
    let serve = [PROGRAM, "serve"];
    let ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let backups = ["--backup-folder", "."];
    let mut server = Process::start(
        "strace",
        folder.path(),
        &[&strace("served")[..], &serve, &ports, &backups].concat(),
        &[],
    );
    let client = server.client(Some(&key));
    for _ in 0..3 {
        assert_eq!(
            client
                .create(&json!({"name": "Rex", "categoryId": 1}))
                .status,
            201
        );
        assert_eq!(client.get("/v1/pets").status, 200);
        let admin = harness::Client::new(server.admin, None);
        assert_eq!(admin.get("/metrics").status, 200);
    }
    // A poll, a flush, the checks and a backup.
    run(
        folder.path(),
        &[],
        &["keys", "create", "--name", "b", "--plan", "free"],
    )
    .exits(0);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id()));
    let child = children.expect("children").trim().to_owned();
    // A shell is on every machine; the program kill is in procps, on which the package does not depend.
    let reload = text.lines().find_map(|line| {
        line.strip_prefix("ExecReload=/bin/sh -c '")?
            .strip_suffix('\'')
    });
    let reload = reload
        .expect("a reload by a shell")
        .replace("${MAINPID}", &child);
    let shell = ["/bin/sh", "-c", &reload];
    harness::run(
        "strace",
        folder.path(),
        &[&strace("reloaded")[..], &shell].concat(),
    )
    .exits(0);
    Command::new("kill")
        .args(["-TERM", &child])
        .status()
        .expect("kill runs");
    assert_eq!(server.ends_within(super::SOON), Some(0));

    let traces = ["served", "reloaded"]
        .map(|trace| std::fs::read_to_string(folder.path().join(trace)).expect("a trace"));
    let used: BTreeSet<String> = traces
        .iter()
        .flat_map(|trace| trace.lines())
        .filter_map(|line| line.split_once(' ')?.1.trim().split_once('('))
        .map(|(name, _)| name.to_owned())
        .filter(|name| {
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
        .collect();
    assert!(
        ["fsync", "accept4", "setpriority", "kill"]
            .iter()
            .all(|call| used.contains(*call)),
        "{used:?}"
    );
    // Only root changes owners, and the service never runs as root.
    let forbidden: Vec<_> = used
        .difference(&allowed)
        .filter(|name| !name.ends_with("chown"))
        .collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
}
