//! What thousands of connections cost, whatever their clients do: memory that is bounded, and released.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use animal_store::page::{Cursor, Scope};
use harness::{Process, eventually};
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::{FREE_PORTS, PROGRAM, folder, large_key};

/// Connections of each kind.
const MANY: usize = 5_000;

/// The maximum memory of the process.
const PEAK: u64 = 400 << 20;

/// The same with pages that nobody reads.
const PEAK_OF_PAGES: u64 = 240 << 20;

/// The maximum memory of a connection.
const EACH: u64 = 64 << 10;

/// The maximum that is not released a minute after they have ended.
const LEFT: u64 = 50 << 20;

/// The memory of a process, as the system counts it: now, and the peak.
fn memory(process: &Process) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.expect("a process");
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        kib.expect("a figure").parse::<u64>().expect("a number") << 10
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// A server that one address may have very many connections to.
fn serve(folder: &Path) -> Process {
    let args = "--max-connections-per-address 10000 --log-level error";
    let args: Vec<_> = args.split(' ').collect();
    Process::serve(PROGRAM, folder, &args)
}

fn connect(address: SocketAddr, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(first).expect("room for a request");
    stream
}

/// Opens many connections that send `first`, calls `then` with them, closes them, and checks the memory of the server.
#[track_caller]
fn costs_little(kind: &str, first: impl Fn(&str) -> Vec<u8>, then: impl Fn(&mut [TcpStream])) {
    let folder = folder();
    let key = large_key(folder.path());
    let process = serve(folder.path());
    let client = process.client(Some(&key));
    for _ in 0..100 {
        assert_eq!(client.get("/docs").status, 200);
        assert_eq!(client.get("/v1/pets").status, 200);
    }
    let (start, _) = memory(&process);

    let first = first(&key);
    let mut left = 0;
    // More than once: an allocator may release memory the first time, and keep it the second time.
    for _ in 0..2 {
        let mut open: Vec<TcpStream> = (0..MANY)
            .map(|_| connect(process.address, &first))
            .collect();
        then(&mut open);
        assert_eq!(client.get("/v1/pets").status, 200, "others are served");
        drop(open);
        eventually(Duration::from_secs(60), "memory is released", || {
            // An idle process does not release memory.
            assert_eq!(client.get("/v1/pets").status, 200);
            left = memory(&process).0.saturating_sub(start);
            left <= LEFT
        });
    }
    let (_, peak) = memory(&process);
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "{kind}: {MANY} connections, {} MiB before, {} at most, {} more after",
        mib(start),
        mib(peak),
        mib(left)
    );
    assert!(peak <= PEAK, "{kind}: {} MiB", mib(peak));
    let each = (peak - start) / MANY as u64;
    assert!(each <= EACH, "{kind}: {each} bytes for each connection");
}

/// Requests for more than a megabyte, which is more than the system buffers.
fn large(_key: &str) -> Vec<u8> {
    b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n".repeat(14)
}

#[test]
fn a_large_asset_that_nobody_reads_costs_little() {
    let wait = |_: &mut [TcpStream]| std::thread::sleep(Duration::from_secs(3));
    costs_little("unread", large, wait);
}

#[test]
fn a_large_asset_that_is_read_slowly_costs_little() {
    let read = |open: &mut [TcpStream]| {
        let mut some = [0; 2_048];
        for stream in (0..3).flat_map(|_| 0..MANY) {
            assert!(open[stream].read(&mut some).expect("some of it") > 0);
        }
    };
    costs_little("slow reads", large, read);
}

#[test]
fn an_incomplete_head_costs_little() {
    let first = |_: &str| {
        let mut head = b"GET /v1/pets HTTP/1.1\r\nHost: x\r\nX-Long: ".to_vec();
        head.resize(15_000, b'x');
        head
    };
    let wait = |_: &mut [TcpStream]| std::thread::sleep(Duration::from_secs(2));
    costs_little("incomplete heads", first, wait);
}

#[test]
fn a_body_that_does_not_end_costs_little() {
    let first = |key: &str| {
        let mut request = format!(
            "POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: 16000\r\n\r\n"
        )
        .into_bytes();
        request.resize(request.len() + 15_000, b' ');
        request
    };
    let wait = |_: &mut [TcpStream]| std::thread::sleep(Duration::from_secs(2));
    costs_little("slow bodies", first, wait);
}

#[test]
fn a_body_that_does_not_end_costs_little_also_after_a_large_head() {
    let first = |key: &str| {
        let mut request = format!(
            "POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: 16000\r\n"
        )
        .into_bytes();
        for number in 0..90 {
            request.extend_from_slice(format!("X-{number}: {}\r\n", "x".repeat(140)).as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.resize(request.len() + 15_000, b' ');
        request
    };
    let wait = |_: &mut [TcpStream]| std::thread::sleep(Duration::from_secs(2));
    costs_little("slow bodies after large heads", first, wait);
}

#[test]
fn large_pages_that_nobody_reads_cost_little_though_no_two_are_the_same() {
    let folder = folder();
    let key = large_key(folder.path());
    let process = serve(folder.path());
    let client = process.client(Some(&key));
    for _ in 0..1_200 {
        let made = client.create(&json!({"name": "🐕".repeat(255), "categoryId": 1}));
        assert_eq!(made.status, 201);
    }
    // Together they are larger than the peak: 105 KB each.
    let open: Vec<TcpStream> = (0..3_000)
        .map(|number| {
            let cursor = Cursor::after(number % 1_000).bound_to(Scope::Pets(None));
            let request = format!(
                "GET /v1/pets?limit=100&cursor={cursor} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
            );
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            // Otherwise the system buffers the whole page for the client.
            socket.set_recv_buffer_size(2_304).expect("a small buffer");
            socket.connect(&process.address.into()).expect("a connection");
            let mut stream = TcpStream::from(socket);
            stream.write_all(request.as_bytes()).expect("room for a request");
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    // On a busy machine the requests before it take longer than a client waits.
    eventually(Duration::from_secs(90), "a small page", || {
        let request = client.request("GET", "/v1/pets?limit=1");
        let small = request.try_send_on(&mut client.connect());
        small.is_ok_and(|small| small.status == 200)
    });
    let (_, peak) = memory(&process);
    println!(
        "large pages: {} connections, {} MiB at most",
        open.len(),
        peak >> 20
    );
    assert!(peak <= PEAK_OF_PAGES, "{} MiB", peak >> 20);
    drop(open);
    eventually(Duration::from_secs(10), "large pages again", || {
        client.get("/v1/pets?limit=100").status == 200
    });
}

#[test]
fn a_head_of_more_than_16_kib_is_rejected() {
    let folder = folder();
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    for (length, status) in [(15_000, "401"), (17_000, "431")] {
        let mut head = b"GET /v1/pets HTTP/1.1\r\nHost: x\r\nX-Long: ".to_vec();
        head.resize(length, b'x');
        head.extend_from_slice(b"\r\n\r\n");
        let mut stream = connect(process.address, &head);
        let mut start = [0; 12];
        stream.read_exact(&mut start).expect("a response");
        assert_eq!(&start[9..], status.as_bytes());
    }
}

#[test]
fn a_server_executes_itself_with_the_option_of_the_allocator_but_not_if_the_dynamic_loader_runs_it()
{
    let folder = folder();
    let link = folder.path().join("store");
    std::os::unix::fs::symlink(PROGRAM, &link).expect("a link");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the maps");
    let mut paths = maps.split_whitespace();
    let loader = paths
        .find(|path| path.contains("/ld-"))
        .expect("the loader");
    for (program, args, has_option) in [
        (PROGRAM, &["serve"][..], true),
        (link.to_str().expect("text"), &["serve"], true),
        (loader, &[PROGRAM, "serve"], false),
    ] {
        let args = [args, &FREE_PORTS].concat();
        let process = Process::start(program, folder.path(), &args, &[]);
        let environment = std::fs::read(format!("/proc/{}/environ", process.id()));
        let environment = String::from_utf8_lossy(&environment.expect("a process")).into_owned();
        let found = environment.contains("MIMALLOC_PURGE_DELAY=0");
        assert_eq!(found, has_option, "{program}");
    }
}
