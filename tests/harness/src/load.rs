//! Clients that create and read animals as fast as they can, and how long each request took.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Client;

/// The number of concurrent clients that create.
const CLIENTS: usize = 4;

/// How much the 99th percentile of reads during an import may exceed three times that without one: there are fewer cores than
/// threads.
const P99_SLACK: Duration = Duration::from_millis(20);

/// Stops clients when it is dropped, also when the test fails, which would otherwise wait for them.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Creates animals while `during` runs. Returns how long each creation took, in ascending order.
pub fn creations(client: &Client, during: impl FnOnce()) -> Vec<Duration> {
    let (done, took) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let _end = StopOnDrop(&done);
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = client.connect();
                while !done.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let animal = json!({"name": "Rex", "categoryId": 1});
                    let request = client.request("POST", "/v1/pets").json(&animal);
                    let response = request.send_on(&mut connection);
                    assert_eq!(response.status, 201, "{response}");
                    took.lock().expect("a list").push(began.elapsed());
                }
            });
        }
        during();
    });
    let mut took = took.into_inner().expect("a list");
    took.sort();
    took
}

/// Median, 99th percentile and maximum.
pub fn figures(took: &[Duration]) -> [Duration; 3] {
    [took.len() / 2, took.len() * 99 / 100, took.len() - 1].map(|place| took[place])
}

/// Reads animals, each of them once, while something happens. Returns how long each read took.
fn reads(
    client: &Client,
    ids: &mut (impl Iterator<Item = i64> + Send),
    during: impl FnOnce(),
) -> Vec<Duration> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut connection, mut took) = (client.connect(), Vec::new());
            while !done.load(Ordering::Relaxed) {
                let target = format!("/v1/pets/{}", ids.next().expect("as many as it takes"));
                let began = Instant::now();
                let response = client.request("GET", &target).send_on(&mut connection);
                took.push(began.elapsed());
                assert_eq!(response.status, 200, "{response}");
            }
            took
        });
        let end = StopOnDrop(&done);
        during();
        drop(end);
        reading.join().expect("it reads")
    })
}

/// Imports this many animals into an empty store, again and again, while others create animals and read those of the first import.
/// Fails if a creation is rejected, or if the 99th percentile of reads exceeds three times that without an import by more than
/// `P99_SLACK`. Returns the number of animals at the end.
pub fn load_during_imports(
    imported: i64,
    creator: &Client,
    reader: &Client,
    import: impl Fn(),
) -> i64 {
    import();
    let first = reader.get("/v1/pets?limit=1").ids()[0];
    // Far from each other, so that neither the cache nor a page that was just read has them.
    let mut ids = (0..).map(|number| first + number * 7_919 % imported);
    let (mut alone, mut beside, mut created) = (Vec::new(), Vec::new(), 0);
    // Alternating, so that other work on the machine affects both equally.
    for _ in 0..2 {
        alone.extend(reads(reader, &mut ids, || {
            // Each of these is acknowledged, or this fails.
            created += creations(creator, || std::thread::sleep(Duration::from_secs(3))).len();
        }));
        beside.extend(reads(reader, &mut ids, || {
            created += creations(creator, &import).len();
        }));
    }
    alone.sort();
    beside.sort();
    let (alone, beside) = (figures(&alone), figures(&beside));
    println!("median, p99 and maximum of reads: alone {alone:?}, beside an import {beside:?}");
    assert!(
        beside[1] <= 3 * alone[1] + P99_SLACK,
        "{alone:?}, {beside:?}"
    );
    3 * imported + i64::try_from(created).expect("few")
}
