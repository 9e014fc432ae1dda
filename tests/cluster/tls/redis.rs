//! The certificate of Redis, alone and of a cluster.

use std::time::Duration;

use harness::{Authority, Process, Redis, eventually, run};

use super::{folder, shown};
use crate::PROGRAM;

/// Waits until a node counts in one of these.
#[track_caller]
pub(super) fn counts_in(redis: &[Redis]) {
    eventually(Duration::from_secs(5), "the script runs", || {
        let runs = |one: &Redis| one.cli(&["INFO", "commandstats"]).contains("evalsha");
        redis.iter().any(runs)
    });
}

/// Waits until a node counts alone, for this reason.
#[track_caller]
pub(super) fn counts_alone(process: &Process, cause: &str) {
    let mut log = String::new();
    eventually(Duration::from_secs(5), cause, || {
        log.push_str(&process.log());
        log.contains("this node enforces limits without it") || log.contains("panicked")
    });
    assert!(log.contains(cause), "{cause}: {log}");
}

#[test]
fn a_certificate_of_redis_that_is_rejected_leaves_the_node_on_its_own_and_the_cause_is_logged() {
    let (authority, other, folder) = (Authority::new(), Authority::new(), folder());
    let (right, wrong) = (authority.ca(), other.ca());
    let plain = Redis::start();
    let shards = Redis::cluster_with_tls(&authority.server());
    let ports = shards
        .each_ref()
        .map(|one| format!("127.0.0.1:{}", one.port()));
    let cluster = format!("rediss://{}", ports.join(","));
    for (certificate, ca, cause) in [
        (authority.server(), &right, String::new()),
        (
            authority.server(),
            &wrong,
            format!("its certificate is not signed by a CA in {}", shown(&wrong)),
        ),
        (
            authority.sign("other", &["cache.example"], 2049),
            &right,
            "its certificate is for cache.example, not for 127.0.0.1".into(),
        ),
        (
            authority.sign("old", &["127.0.0.1"], 2026),
            &right,
            "its certificate expired on 2026-01-01".into(),
        ),
    ] {
        let redis = [Redis::start_with_tls(&certificate, false)];
        let mut targets = vec![(redis[0].url(), &redis[..])];
        // Nodes of a cluster verify each other: they would not run with a certificate that has expired.
        if certificate.cert.ends_with("server.pem") {
            targets.push((cluster.clone(), &shards));
        }
        for (url, servers) in targets {
            let args = ["--no-first-key", "--redis", &url, "--ca-cert", shown(ca)];
            let process = Process::serve(PROGRAM, folder.path(), &args);
            match &*cause {
                "" => counts_in(servers),
                cause => counts_alone(&process, &format!("Redis at 127.0.0.1: {cause}")),
            }
        }
    }
    let url = plain.url().replace("redis:", "rediss:");
    let args = [
        "--no-first-key",
        "--redis",
        &url,
        "--ca-cert",
        shown(&right),
    ];
    let process = Process::serve(PROGRAM, folder.path(), &args);
    // It mistakes the handshake for a command, and waits for its end.
    counts_alone(&process, "no response within");
    drop(process);
    let line = run(
        PROGRAM,
        folder.path(),
        &["serve", "--redis", "rediss://a", "--ca-cert", "none.pem"],
    )
    .fails_with(1);
    assert!(
        line.ends_with("animal-store: --ca-cert none.pem: file not found"),
        "{line}"
    );
}
