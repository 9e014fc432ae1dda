//! A change of very many keys at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::{App, Client, StopOnDrop, Stopwatch, enterprise, eventually};

/// How many keys change at the same time.
const KEYS: u32 = 100_000;

/// How long the server may take to apply them all, on a machine that has other work.
const APPLIED: Duration = Duration::from_secs(60);

/// The longest response may take at most `1/PART` of the time of the whole change. If one lock were held for all of
/// it, that response would take three quarters; the margin is for other work of the machine.
const PART: u32 = 4;

/// The longest that a response to this client takes until `done`.
fn longest_until(client: &Client, done: &AtomicBool) -> Duration {
    let mut connection = client.connect();
    let mut longest = Duration::ZERO;
    while !done.load(Ordering::Relaxed) {
        let sent = Stopwatch::start();
        let response = client
            .request("GET", "/v1/pets?limit=1")
            .send_on(&mut connection);
        longest = longest.max(sent.elapsed());
        assert_eq!(response.status, 200, "{response}");
    }
    longest
}

#[test]
fn a_change_of_a_hundred_thousand_keys_delays_no_request() {
    let (app, ..) = App::start();
    let client = app.key(enterprise(100_000_000, 100_000_000));
    // A cached page: the store is not queried for it.
    client.create_many(2);
    let sql_client = app.sql_client();
    sql_client.add_keys(KEYS);
    let last = app.key(enterprise(100_000_000, 100_000_000));
    let limit = || last.get("/v1/pets?limit=1").rate().0;
    assert_eq!(limit(), 100_000_000);
    let delays_none = |per_minute: u32| {
        let done = &AtomicBool::new(false);
        let (longest, applied) = std::thread::scope(|scope| {
            let client = &client;
            let asking = scope.spawn(move || longest_until(client, done));
            let end = StopOnDrop(done);
            sql_client.change_all_keys(per_minute);
            let began = Instant::now();
            eventually(APPLIED, "the change of the last key is in effect", || {
                limit() == i64::from(per_minute)
            });
            let applied = began.elapsed();
            drop(end);
            (asking.join().expect("a client"), applied)
        });
        println!("longest response {longest:?}, all applied after {applied:?}");
        // If most of them were applied before the change had returned, the rest takes little longer than a pause of the machine.
        longest < (applied / PART).max(Duration::from_millis(100))
    };
    // Once is enough: one lock for all would delay requests each time, other work on the machine does not.
    assert!((70_000_001..=70_000_005).any(delays_none));
}
