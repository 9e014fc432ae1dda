//! A server that is restarted while clients open new connections: each connection that was established gets its response.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use harness::{Process, free_port};

use crate::{PROGRAM, folder};

/// Clients that open one connection after the other.
const CLIENTS: usize = 4;

/// Whether the server accepted a connection and sent no response.
fn is_lost(address: SocketAddr) -> Option<std::io::Error> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    let request = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut response = Vec::new();
    let asked = stream
        .write_all(request)
        .and_then(|()| stream.read_to_end(&mut response));
    match asked {
        Err(error) => Some(error),
        Ok(_) if response.starts_with(b"HTTP/1.1 200") => None,
        Ok(_) => Some(ErrorKind::UnexpectedEof.into()),
    }
}

/// Restarts a server this many times under load. Returns the numbers of requests that were served and lost.
fn restarts(folder: &Path, vars: &[(&str, &str)], times: usize) -> (usize, usize) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (served, lost, over) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicBool::new(false),
    );
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    match is_lost(address) {
                        None => served.fetch_add(1, Ordering::Relaxed),
                        Some(error) => {
                            println!("lost: {error}");
                            lost.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
        let listen = address.to_string();
        let args = [
            "serve",
            "--listen",
            &listen,
            "--admin-listen",
            "127.0.0.1:0",
            "--log-level",
            "error",
        ];
        for _ in 0..times {
            let mut process = Process::start(PROGRAM, folder, &args, vars);
            std::thread::sleep(Duration::from_millis(100));
            process.signal("TERM");
            assert_eq!(process.ends_within(Duration::from_secs(5)), Some(0));
        }
        over.store(true, Ordering::Relaxed);
    });
    (served.into_inner(), lost.into_inner())
}

#[test]
fn a_restart_resets_no_established_connection() {
    let folder = folder();
    let times = match std::env::var_os("ANIMAL_STORE_TEST_LONG") {
        Some(_) => 200,
        None => 25,
    };
    let (served, lost) = restarts(folder.path(), &[], times);
    println!("{times} restarts: {served} requests served, {lost} lost");
    assert!(served > 10 * times, "{served}");
    assert_eq!(lost, 0);
}

#[test]
fn a_server_that_drops_its_queue_is_caught() {
    let folder = folder();
    let vars = [("ANIMAL_STORE_FAULT", "drops-queue")];
    let (_, lost) = restarts(folder.path(), &vars, 25);
    assert!(lost > 0);
}
