//! A commit whose response got lost: the client that tries again, on whatever node, gets the one animal it asked for.

use std::time::Duration;

use harness::eventually;

use crate::{Cluster, Load, Made, is_long, lost_and_doubled};

/// Clients that create at once.
const CLIENTS: usize = 12;

/// Cuts connections to PostgreSQL so many times after COMMIT was sent, under load.
fn cut(cluster: &Cluster, times: usize) -> Vec<Made> {
    let load = Load::new(cluster.clients(&cluster.large_key()));
    let before = cluster.wire.cuts();
    load.during(CLIENTS, || {
        for cut in 1..=times {
            // One at a time, so that what is tried again meets what is new.
            cluster.wire.cut_when_client_sends(b"COMMIT", 1);
            eventually(Duration::from_secs(20), "a cut", || {
                cluster.wire.cuts() == before + cut
            });
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

#[test]
fn an_animal_whose_commit_was_cut_off_is_neither_lost_nor_doubled_by_a_retry() {
    let cuts = if is_long() { 1_000 } else { 100 };
    let cluster = Cluster::start();
    let made = cut(&cluster, cuts);
    let (lost, doubled) = lost_and_doubled(&cluster.postgres, &made);
    let retried = made.iter().filter(|made| !made.failures.is_empty()).count();
    let settled = made.iter().filter(|made| made.replayed).count();
    println!(
        "{} animals, {retried} retried, {settled} settled",
        made.len()
    );
    assert!(
        lost.is_empty() && doubled.is_empty(),
        "of {} animals, {retried} retried, lost: {lost:#?}, doubled: {doubled:#?}",
        made.len()
    );
    // Most commits are those of creations, and most of those that were cut off had been done.
    assert!(
        retried >= cuts / 2 && settled >= cuts / 2,
        "of {} animals, {retried} retried and {settled} settled by {cuts} cuts",
        made.len()
    );
}

#[test]
fn the_same_check_catches_a_creation_without_its_record() {
    let cluster = Cluster::broken("no-retry-record");
    let made = cut(&cluster, 10);
    let (lost, doubled) = lost_and_doubled(&cluster.postgres, &made);
    assert!(lost.is_empty(), "{lost:#?}");
    assert!(!doubled.is_empty(), "none of {} is doubled", made.len());
}
