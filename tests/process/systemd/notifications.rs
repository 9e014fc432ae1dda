//! Notifications to the service manager, and keep-alives for its watchdog.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use harness::{Client, eventually};

use super::{Manager, SOON};
use crate::faults::hang_a_worker;
use crate::large_key;

#[test]
fn the_service_manager_is_notified_of_the_start_and_the_shutdown_and_gets_keep_alives() {
    let manager = Manager::new();
    let mut service = manager.start(&[("WATCHDOG_USEC", "2000000")]);
    let lines = manager.wait_for("READY=1", SOON);
    let status = format!("STATUS=Serving http://{}/v1", manager.address());
    assert!(lines.contains(&status), "{lines:?}");
    assert_eq!(
        Client::new(manager.address(), None).get("/readyz").status,
        200
    );
    // Often enough, and as long as it runs: each within the time of the watchdog.
    for _ in 0..4 {
        manager.wait_for("WATCHDOG=1", Duration::from_secs(2));
    }
    service.terminate();
    manager.wait_for("STOPPING=1", SOON);
    assert_eq!(service.code(), Some(0));
}

#[test]
fn a_service_manager_may_listen_on_an_abstract_socket() {
    let mut manager = Manager::new();
    let name = format!("animal-store-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    manager.notified = UnixDatagram::bind_addr(&address).expect("a socket");
    let timeout = Some(Duration::from_millis(100));
    manager
        .notified
        .set_read_timeout(timeout)
        .expect("a timeout");
    let _service = manager.start(&[("NOTIFY_SOCKET", &format!("@{name}"))]);
    manager.wait_for("READY=1", SOON);
}

#[test]
fn a_server_without_a_watchdog_sends_no_keep_alives() {
    let manager = Manager::new();
    let another = [("WATCHDOG_USEC", "400000"), ("WATCHDOG_PID", "1")];
    for vars in [&[][..], &another] {
        let _service = manager.start(vars);
        let mut lines = manager.wait_for("READY=1", SOON);
        (0..10).for_each(|_| lines.extend(manager.read()));
        assert!(!lines.contains(&"WATCHDOG=1".into()), "{lines:?}");
    }
}

/// What is logged when a notification cannot be sent.
const CANNOT_NOTIFY: &str = "cannot notify the service manager at NOTIFY_SOCKET";

#[test]
fn a_server_whose_service_manager_does_not_listen_serves_and_logs_it() {
    let too_long = "x".repeat(200);
    for socket in ["missing", &too_long] {
        let manager = Manager::new();
        let log = manager.folder.path().join("log");
        let vars = [("NOTIFY_SOCKET", socket), ("WATCHDOG_USEC", "400000")];
        let mut service = manager.start(&vars);
        assert_eq!(
            Client::new(manager.address(), None).get("/readyz").status,
            200
        );
        service.terminate();
        assert_eq!(service.code(), Some(0));
        let log = std::fs::read_to_string(log).expect("a log");
        assert!(log.contains(CANNOT_NOTIFY), "{log}");
    }
}

#[test]
fn workers_respond_although_the_service_manager_does_not_read() {
    let manager = Manager::new();
    let other = UnixDatagram::unbound().expect("a socket");
    other.set_nonblocking(true).expect("a socket");
    let full = manager.folder.path().join("notify");
    while other.send_to(b"X=1", &full).is_ok() {}
    let _service = manager.start(&[("WATCHDOG_USEC", "400000")]);
    let mut log = String::new();
    // Each blocks for a second, in which the next keep-alive becomes due: any of them could report workers that do not respond.
    eventually(SOON, "notifications", || {
        log = std::fs::read_to_string(manager.folder.path().join("log")).expect("a log");
        log.matches(CANNOT_NOTIFY).count() >= 5
    });
    assert!(!log.contains("workers do not respond"), "{log}");
}

#[test]
fn a_server_whose_worker_is_stuck_sends_no_keep_alive() {
    let manager = Manager::new();
    let key = large_key(manager.folder.path());
    let vars = [
        ("WATCHDOG_USEC", "400000"),
        ("ANIMAL_STORE_FAULT", "worker-hangs"),
    ];
    let _service = manager.start(&vars);
    manager.wait_for("READY=1", SOON);
    manager.wait_for("WATCHDOG=1", SOON);
    let _connection = hang_a_worker(&Client::new(manager.address(), Some(key)));
    let mut silent = 0;
    eventually(SOON, "no keep-alives", || {
        let signs = manager.read().contains(&"WATCHDOG=1".into());
        silent = if signs { 0 } else { silent + 1 };
        silent >= 10
    });
    let log = std::fs::read_to_string(manager.folder.path().join("log")).expect("a log");
    let line =
        "ERROR workers do not respond: the watchdog gets no keep-alive until they do workers=1";
    assert_eq!(log.matches(line).count(), 1, "{log}");
}
