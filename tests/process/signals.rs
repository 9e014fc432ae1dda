//! Signals that a terminal or another program sends more than once.

use std::time::Duration;

use harness::{Process, eventually};

use crate::lifecycle::{DRAIN, begin_request};
use crate::{FREE_PORTS, PROGRAM, folder, large_key};

#[test]
fn a_hangup_does_not_end_a_server_without_a_certificate_and_without_a_terminal() {
    let folder = folder();
    let key = large_key(folder.path());
    // In a session of its own, without the terminal that the tests may have. `setsid` becomes the program.
    let serve = [&[PROGRAM, "serve"][..], &FREE_PORTS].concat();
    let mut process = Process::start("setsid", folder.path(), &serve, &[]);
    process.signal("HUP");
    assert_eq!(process.client(Some(&key)).get("/v1/pets").status, 200);
    process.signal("TERM");
    assert_eq!(process.ends_within(DRAIN), Some(0));
}

#[test]
fn a_server_on_a_terminal_drains_when_the_terminal_is_lost_and_sends_several_signals() {
    let folder = folder();
    let serve = format!(
        "env --default-signal=HUP {PROGRAM} serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 2>log"
    );
    // The shell of the terminal sends the signals when the server has begun to listen, for longer than a repeated signal counts as a
    // duplicate.
    let hang_up = "for _ in 1 2 3 4 5; do kill -HUP $!; sleep 0.03; done";
    let line =
        format!("{serve} & until grep -q ready log; do sleep 0.05; done; {hang_up}; wait $!");
    let (code, shown) = harness::on_terminal(folder.path(), &line, &[], "");
    assert_eq!(code, Some(0), "{shown}");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("a log");
    assert!(log.contains("shutting down"), "{log}");
}

#[test]
fn the_same_signal_again_at_once_is_not_a_second_one() {
    let drains = |_| {
        let folder = folder();
        let key = large_key(folder.path());
        let mut process = Process::serve(PROGRAM, folder.path(), &[]);
        let under_way = begin_request(&process.client(Some(&key)));
        let waits = process.waits_of("signals");
        process.signal("TERM");
        eventually(Duration::from_secs(5), "the first is received", || {
            process.waits_of("signals") > waits
        });
        process.signal("TERM");
        drop(under_way);
        process.ends_within(DRAIN) == Some(0)
    };
    // On a busy machine, the server may receive it too late for a duplicate.
    assert!((0..5).any(drains));
}

#[test]
fn the_same_signal_again_later_ends_the_drain() {
    let folder = folder();
    let key = large_key(folder.path());
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    let _under_way = begin_request(&process.client(Some(&key)));
    for _ in 0..3 {
        process.signal("TERM");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(process.ends_within(DRAIN / 2), Some(1));
}
