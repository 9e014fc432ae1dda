//! A server that is restarted while clients open new connections: each connection that was established gets its response.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use harness::{Process, StopOnDrop, eventually, free_port};

use crate::{PROGRAM, folder};

/// Clients that open one connection after the other.
const CLIENTS: usize = 4;

/// Requests that have to be served between two restarts.
const SERVED: usize = 20;

/// How a request ended.
enum Outcome {
    Served,
    /// No server was listening.
    Refused,
    /// The server accepted the connection and sent no response.
    Lost(std::io::Error),
}

fn request(address: SocketAddr) -> Outcome {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(5)) else {
        return Outcome::Refused;
    };
    let timeout = stream.set_read_timeout(Some(Duration::from_secs(15)));
    timeout.expect("a socket");
    let request = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut response = Vec::new();
    let asked = stream
        .write_all(request)
        .and_then(|()| stream.read_to_end(&mut response));
    match asked {
        Err(error) => Outcome::Lost(error),
        Ok(_) if response.starts_with(b"HTTP/1.1 200") => Outcome::Served,
        Ok(_) => Outcome::Lost(ErrorKind::UnexpectedEof.into()),
    }
}

/// Restarts a server this many times under load. Returns how many requests were lost.
fn restarts(folder: &Path, vars: &[(&str, &str)], times: usize) -> usize {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (served, lost, over) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicBool::new(false),
    );
    std::thread::scope(|scope| {
        let _end = StopOnDrop(&over);
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    match request(address) {
                        Outcome::Served => _ = served.fetch_add(1, Ordering::Relaxed),
                        Outcome::Refused => std::thread::sleep(Duration::from_millis(1)),
                        Outcome::Lost(error) => {
                            println!("lost: {error}");
                            lost.fetch_add(1, Ordering::Relaxed);
                        }
                    }
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
            let wanted = served.load(Ordering::Relaxed) + SERVED;
            eventually(Duration::from_secs(10), "requests are served", || {
                served.load(Ordering::Relaxed) >= wanted
            });
            process.signal("TERM");
            assert_eq!(process.ends_within(Duration::from_secs(5)), Some(0));
        }
    });
    lost.into_inner()
}

#[test]
fn a_restart_resets_no_established_connection() {
    let folder = folder();
    let times = if harness::is_long() { 200 } else { 25 };
    assert_eq!(restarts(folder.path(), &[], times), 0);
}

#[test]
fn a_server_that_drops_its_queue_is_caught() {
    let folder = folder();
    let vars = [("ANIMAL_STORE_FAULT", "drops-queue")];
    assert!(restarts(folder.path(), &vars, 25) > 0);
}
