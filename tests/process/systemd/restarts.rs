//! Restarts under load, on a socket that stays open: no connection is refused, none is reset, and every request has its response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use harness::{StopOnDrop, Stopwatch};

use super::{Manager, SOON};

/// Clients that open one connection after the other.
const CLIENTS: usize = 8;

/// Opens a connection, and sends one request.
fn request(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(15)))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let first = response.lines().next().unwrap_or_default();
    match first {
        "HTTP/1.1 200 OK" => Ok(()),
        // A connection that was accepted before the shutdown.
        "HTTP/1.1 503 Service Unavailable" if response.contains("shutting down") => Ok(()),
        _ => Err(std::io::Error::other(first.to_owned())),
    }
}

/// Restarts a server this many times. Returns the number of requests that were served, and the failures.
fn restarts(vars: &[(&str, &str)], times: usize) -> (usize, Vec<String>) {
    let manager = Manager::new();
    let address = manager.address();
    let (served, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let client = || {
        let mut failures = Vec::new();
        while !over.load(Ordering::Relaxed) && failures.len() < 5 {
            match request(address) {
                Ok(()) => drop(served.fetch_add(1, Ordering::Relaxed)),
                Err(error) => failures.push(error.to_string()),
            }
        }
        failures
    };
    let failures = std::thread::scope(|scope| {
        let end = StopOnDrop(&over);
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        for _ in 0..times {
            let mut service = manager.start(vars);
            manager.wait_for("READY=1", SOON);
            let before = served.load(Ordering::Relaxed);
            // Not forever: with a fault, all clients may have failed.
            let began = Stopwatch::start();
            while served.load(Ordering::Relaxed) <= before + 20 && began.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(10));
            }
            service.terminate();
            assert_eq!(service.code(), Some(0));
        }
        // One more server accepts the connections that still wait in the queue.
        drop(end);
        let _last = manager.start(vars);
        let failures = clients.into_iter().map(|client| client.join());
        failures
            .flat_map(|failures| failures.expect("a client"))
            .collect()
    });
    (served.into_inner(), failures)
}

#[test]
fn no_connection_is_refused_or_reset_across_20_restarts_under_load() {
    let times = if harness::is_long() { 100 } else { 20 };
    let (served, failures) = restarts(&[], times);
    println!(
        "{times} restarts: {served} requests served, {} failed",
        failures.len()
    );
    assert!(served > 20 * times, "{served}");
    assert_eq!(failures, Vec::<String>::new());
}

#[test]
fn a_server_that_filters_the_socket_of_the_next_one_is_caught() {
    let vars = [("ANIMAL_STORE_FAULT", "filters-passed-socket")];
    let (_, failures) = restarts(&vars, 3);
    assert!(!failures.is_empty());
}
