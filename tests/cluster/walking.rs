//! A reader that follows `next` while others write sees every animal once, in order, and misses none: IDs become
//! visible in their order, on all nodes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{Client, Response, StopOnDrop};

use crate::{Cluster, rex};

const WRITERS: usize = 8;

const READERS: usize = 4;

const FIRST_PAGE: &str = "/v1/pets?limit=100";

/// How long a reader at the end waits before it reads again.
const WAIT: Duration = Duration::from_millis(20);

/// What was written, and what is wrong with what was read.
struct Walked {
    acknowledged: BTreeSet<i64>,
    violations: Vec<String>,
    pages: usize,
    took: Duration,
}

/// The position of a reader.
struct Walk {
    seen: Vec<i64>,
    page: String,
    /// How many of the last IDs that were seen are on that page: at the end, it is read again.
    on_page: usize,
    pages: usize,
    violations: Vec<String>,
}

impl Walk {
    /// Reads until nothing more can come, from another node each time.
    fn to_the_end(nodes: &[Client], first: usize, written: &AtomicBool) -> Self {
        let mut walk = Self {
            seen: Vec::new(),
            page: FIRST_PAGE.into(),
            on_page: 0,
            pages: 0,
            violations: Vec::new(),
        };
        let mut connections: Vec<_> = nodes.iter().map(|node| node.connect()).collect();
        for turn in first.. {
            let node = turn % nodes.len();
            // Loaded before the page is read: if writing has ended by then, nothing is added after this page.
            let is_complete = written.load(Ordering::SeqCst);
            let page = nodes[node]
                .request("GET", &walk.page)
                .send_on(&mut connections[node]);
            let more = walk.read(&page);
            if !more && is_complete {
                break;
            }
            if !more {
                std::thread::sleep(WAIT);
            }
        }
        walk
    }

    /// Whether there is a next page.
    fn read(&mut self, page: &Response) -> bool {
        assert_eq!(page.status, 200, "{page}");
        self.pages += 1;
        let ids = page.ids();
        let known = &self.seen[self.seen.len() - self.on_page..];
        if !ids.starts_with(known) {
            self.violations
                .push(format!("a page had {known:?}, and then {ids:?}"));
        }
        for id in ids.iter().skip(self.on_page) {
            if self.seen.last().is_some_and(|last| last >= id) {
                self.violations
                    .push(format!("{id} after {:?}", self.seen.last()));
            }
            self.seen.push(*id);
        }
        match page.next() {
            Some(next) => {
                let path = next.find("/v1/").expect("a path");
                (self.page, self.on_page) = (next[path..].to_owned(), 0);
                true
            }
            None => {
                self.on_page = ids.len();
                false
            }
        }
    }
}

/// Adds animals, and returns their IDs. Counts those whose outcome is unknown, because a disk that pauses delays a commit too long. A
/// broken variant may also fail otherwise.
fn write(node: &Client, animals: usize, may_fail: bool, unknown: &AtomicUsize) -> Vec<i64> {
    let mut connection = node.connect();
    let mut ids = Vec::with_capacity(animals);
    while ids.len() < animals {
        let request = node.request("POST", "/v1/pets").json(&rex());
        let response = request.send_on(&mut connection);
        if response.status == 201 {
            ids.push(response.json()["id"].as_i64().expect("an ID"));
        } else {
            assert!(may_fail || response.status == 503, "{response}");
            unknown.fetch_add(1, Ordering::Relaxed);
        }
    }
    ids
}

/// Writes this many animals through all nodes, while readers walk over all nodes.
fn walk_while_writing(cluster: &Cluster, animals: usize) -> Walked {
    let nodes = cluster.clients(&cluster.large_key());
    let nodes = &nodes[..];
    let may_fail = cluster.fault != "none";
    let written = &AtomicBool::new(false);
    let unknown = &AtomicUsize::new(0);
    let began = Instant::now();
    let (ids, walks) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| scope.spawn(move || Walk::to_the_end(nodes, reader, written)))
            .collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let node = &nodes[writer % nodes.len()];
                scope.spawn(move || write(node, animals / WRITERS, may_fail, unknown))
            })
            .collect();
        let end = StopOnDrop(written);
        let ids: Vec<i64> = writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer"))
            .collect();
        drop(end);
        let walks: Vec<Walk> = readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader"))
            .collect();
        (ids, walks)
    });
    let took = began.elapsed();
    let acknowledged: BTreeSet<i64> = ids.iter().copied().collect();
    let unknown = unknown.load(Ordering::Relaxed);
    // A pause of the disk leaves at most one creation of each writer unknown; two pauses are tolerated.
    assert!(
        may_fail || unknown <= 2 * WRITERS,
        "{unknown} creations have an unknown outcome"
    );
    let mut violations = Vec::new();
    if acknowledged.len() < ids.len() {
        violations.push("an ID was assigned twice".into());
    }
    let pages = walks.iter().map(|walk| walk.pages).sum();
    for (reader, walk) in walks.into_iter().enumerate() {
        let seen: BTreeSet<i64> = walk.seen.iter().copied().collect();
        let mut report = |what: &str, wrong: Vec<&i64>| {
            if !wrong.is_empty() {
                violations.push(format!("{} {what}, as {:?}", wrong.len(), wrong[0]));
            }
        };
        report("skipped", acknowledged.difference(&seen).collect());
        let unacknowledged: Vec<_> = seen.difference(&acknowledged).collect();
        if unacknowledged.len() > unknown {
            report("seen, but never acknowledged", unacknowledged);
        }
        let duplicated = walk.seen.len() - seen.len();
        if duplicated > 0 {
            violations.push(format!("{duplicated} seen twice"));
        }
        violations.extend(
            walk.violations
                .into_iter()
                .map(|it| format!("reader {reader}: {it}")),
        );
    }
    Walked {
        acknowledged,
        violations,
        pages,
        took,
    }
}

#[test]
fn readers_that_follow_next_while_others_write_see_each_animal_once_and_in_order() {
    let animals = if harness::is_long() { 200_000 } else { 10_000 };
    let walked = walk_while_writing(&Cluster::start(), animals);
    println!(
        "{} animals, {} pages, {:?}",
        walked.acknowledged.len(),
        walked.pages,
        walked.took
    );
    assert!(walked.violations.is_empty(), "{:#?}", walked.violations);
    assert_eq!(walked.acknowledged.len(), animals);
    // They walked while others wrote: most pages were the last one, read again.
    let fewest = READERS * animals / 100;
    assert!(walked.pages > fewest, "{} of {fewest} pages", walked.pages);
}

#[test]
fn the_same_check_catches_ids_from_a_sequence() {
    // A new cluster each time: readers would count what an earlier attempt has left.
    let mut tries = (0..3).map(|_| {
        let cluster = Cluster::with_fault("ids-from-sequence");
        walk_while_writing(&cluster, 4_000).violations
    });
    let caught = tries.any(|violations| {
        println!(
            "{} violations, first {:?}",
            violations.len(),
            violations.first()
        );
        let found = |what: &str| violations.iter().any(|it| it.contains(what));
        found("skipped") || found(" after ")
    });
    assert!(caught, "nothing was skipped, nor out of order");
}
