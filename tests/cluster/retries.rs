//! A commit whose response was lost: the client that retries, on any node, gets the one animal that it created.

use std::time::Duration;

use harness::eventually;

use crate::{Cluster, Load, Made, lost_and_duplicated};

/// Clients that create at once.
const CLIENTS: usize = 12;

/// Cuts connections to PostgreSQL this many times after COMMIT was sent, under load.
fn cut(cluster: &Cluster, times: usize) -> Vec<Made> {
    let load = Load::new(cluster.clients(&cluster.large_key()));
    let before = cluster.proxy.cuts();
    load.during(CLIENTS, || {
        for cut in 1..=times {
            // One at a time, so that retries run beside new creations.
            cluster.proxy.cut_when_client_sends(b"COMMIT", 1);
            eventually(Duration::from_secs(20), "a cut", || {
                cluster.proxy.cuts() == before + cut
            });
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

#[test]
fn an_animal_whose_commit_was_cut_off_is_neither_lost_nor_doubled_by_a_retry() {
    let cuts = if harness::is_long() { 1_000 } else { 100 };
    let cluster = Cluster::start();
    let made = cut(&cluster, cuts);
    let (lost, duplicated) = lost_and_duplicated(&cluster.postgres, &made);
    let retried = made.iter().filter(|made| !made.failures.is_empty()).count();
    let replayed = made.iter().filter(|made| made.replayed).count();
    println!(
        "{} animals, {retried} retried, {replayed} replayed",
        made.len()
    );
    assert!(
        lost.is_empty() && duplicated.is_empty(),
        "of {} animals, {retried} retried, lost: {lost:#?}, duplicated: {duplicated:#?}",
        made.len()
    );
    // Most commits are those of creations, and most of those that were cut off had succeeded.
    assert!(
        retried >= cuts / 2 && replayed >= cuts / 2,
        "of {} animals, {retried} retried and {replayed} replayed by {cuts} cuts",
        made.len()
    );
}

#[test]
fn the_same_check_catches_a_creation_without_its_record() {
    let cluster = Cluster::with_fault("no-idempotency-record");
    let made = cut(&cluster, 10);
    let (lost, duplicated) = lost_and_duplicated(&cluster.postgres, &made);
    assert!(lost.is_empty(), "{lost:#?}");
    assert!(
        !duplicated.is_empty(),
        "none of {} is duplicated",
        made.len()
    );
}
