//! Clients that do not speak TLS, or do not complete the handshake: what they cost is bounded, and other clients are not affected.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use animal_store::config::TlsFiles;
use harness::{App, Certificate, Client, Connection, Stopwatch, eventually};
use tempfile::TempDir;

use crate::folder;
use crate::raw::Raw;

fn start(
    change: impl FnOnce(&mut animal_store::config::Config),
) -> (App, Client, Certificate, TempDir) {
    let (folder, certificate) = (folder(), Certificate::new());
    let (cert, key) = certificate.write(folder.path());
    let (app, _, client) = App::start_with(|config| {
        config.tls = Some(TlsFiles { cert, key });
        change(config);
    });
    let client = client.over(&certificate.client());
    (app, client, certificate, folder)
}

#[test]
fn a_plain_request_gets_a_readable_400_and_the_connection_is_closed() {
    let (app, key, ..) = start(|_| {});
    let mut connection = Connection::new(app.address());
    connection.send(b"GET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n");
    let response = connection.response();
    response.is_error(400, "https_required");
    assert_eq!(response.header("connection"), Some("close"), "{response}");
    response.rate();
    assert!(connection.is_closed());
    // This client compares it with the document, also for a deprecated operation, whose removal it does not announce.
    let plain = Client::new(app.address(), None);
    plain.get("/v1/pets/1").is_error(400, "https_required");
    assert_eq!(key.get("/v1/pets").status, 200);
}

#[test]
fn a_head_that_is_too_large_gets_431_though_its_client_sends_all_of_it_before_it_reads() {
    let (_app, key, certificate, _folder) = start(|_| {});
    for _ in 0..40 {
        let mut stream = certificate.client().handshake(key.address).expect("TLS");
        let head = b"GET /livez HTTP/1.1\r\nHost: x\r\nX: ";
        stream.write_all(head).expect("sent");
        for _ in 0..8 {
            stream.write_all(&[b'x'; 8_000]).expect("sent");
        }
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("a response");
        assert_eq!(&status, b"HTTP/1.1 431");
    }
}

/// Sends requests without a key until the server reads no more, because its responses are not read. Returns why it has closed the
/// connection in the end.
fn send_without_reading(
    stream: &mut impl Write,
    mut when_full: impl FnMut(),
    timeout: Duration,
) -> ErrorKind {
    let began = Instant::now();
    loop {
        match stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                when_full();
            }
            Err(error) => return error.kind(),
        }
        assert!(began.elapsed() < timeout, "still open");
    }
}

#[test]
fn a_client_that_does_not_read_its_responses_is_disconnected_or_makes_room_for_another() {
    let (short, long) = (Duration::from_millis(500), Duration::from_secs(60));
    for (idle, max_connections) in [(short, 1_000), (long, 1)] {
        let (app, key, certificate, _folder) = start(|config| {
            config.idle_timeout = idle;
            config.max_connections = max_connections;
        });
        let mut stream = certificate.client().handshake(app.address()).expect("TLS");
        let timeout = Some(Duration::from_millis(100));
        stream.sock.set_write_timeout(timeout).expect("a timeout");
        let began = Instant::now();
        let other_connects = || {
            if max_connections == 1 {
                assert_eq!(key.get("/v1/pets").status, 200);
            }
        };
        let closed = send_without_reading(&mut stream, other_connects, Duration::from_secs(15));
        assert!(
            matches!(closed, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            "{closed:?}"
        );
        println!("closed after {:?}", began.elapsed());
        assert_eq!(key.get("/v1/pets").status, 200);
    }
}

#[test]
fn bytes_that_are_neither_tls_nor_http_close_the_connection() {
    let (app, key, ..) = start(|_| {});
    for junk in [
        &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3][..],
        &[0; 100],
        &[0xff; 50_000],
        b"hello",
    ] {
        let mut stream = TcpStream::connect(app.address()).expect("a connection");
        let _ = stream.write_all(junk);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a timeout");
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.len() < 20, "{rest:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert_eq!(key.get("/v1/pets").status, 200);
}

#[test]
fn a_handshake_that_does_not_end_is_closed_in_time_though_bytes_trickle() {
    let (app, ..) = start(|config| config.request_timeout = Duration::from_millis(500));
    // The head of a record of 512 bytes, and then a byte at a time.
    for first in [
        &[][..],
        &[0x16, 3, 1, 2, 0],
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc],
    ] {
        let began = Stopwatch::start();
        let mut stream = TcpStream::connect(app.address()).expect("a connection");
        stream.write_all(first).expect("sent");
        let mut writer = stream.try_clone().expect("a clone");
        let trickles = !first.is_empty();
        std::thread::spawn(move || {
            while trickles && writer.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let _ = stream.read(&mut [0; 100]);
        let (least, took) = (began.elapsed_with_pauses(), began.elapsed());
        assert!(
            least > Duration::from_millis(400) && took < Duration::from_secs(2),
            "{least:?}, {took:?}"
        );
    }
}

#[test]
fn nine_hundred_silent_sockets_delay_no_other_and_are_closed_in_time() {
    let (app, key, ..) = start(|config| config.request_timeout = Duration::from_secs(2));
    let silent: Vec<TcpStream> = (0..900)
        .map(|number| {
            let mut stream = TcpStream::connect(app.address()).expect("a connection");
            if number % 2 == 0 {
                stream.write_all(&[0x16, 3, 1, 2, 0]).expect("sent");
            }
            stream
        })
        .collect();
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(key.get("/v1/pets").status, 200);
    }
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    for mut stream in silent {
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a timeout");
        assert!(
            !matches!(stream.read(&mut [0; 8]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        );
    }
}

#[test]
fn silent_handshakes_are_evicted_first_when_all_connections_are_in_use() {
    let (app, key, ..) = start(|config| {
        config.max_connections = 20;
        config.request_timeout = Duration::from_secs(60);
    });
    let silent: Vec<TcpStream> = (0..19)
        .map(|_| TcpStream::connect(app.address()).expect("a connection"))
        .collect();
    let admin = Client::new(app.admin_address(), None);
    eventually(Duration::from_secs(5), "all are accepted", || {
        let metrics = admin.get("/metrics").body;
        String::from_utf8_lossy(&metrics).contains("animal_store_open_connections 19\n")
    });
    // It has waited less.
    let mut kept = key.connect();
    let list = key.request("GET", "/v1/pets");
    assert_eq!(list.clone().send_on(&mut kept).status, 200);
    for _ in 0..5 {
        assert_eq!(key.get("/v1/pets").status, 200);
    }
    assert_eq!(list.send_on(&mut kept).status, 200);
    drop(silent);
}

#[test]
fn a_connection_over_the_limit_gets_503_over_tls() {
    let (app, key, certificate, _folder) = start(|config| config.max_connections_per_address = 2);
    let open: Vec<_> = (0..2).map(|_| key.connect()).collect();
    for protocols in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let tls = certificate.client_with(tokio_rustls::rustls::ALL_VERSIONS, protocols);
        let mut connection = key.over(&tls).connect();
        connection.send(b"GET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n");
        let response = connection.response();
        response.is_error(503, "unavailable");
        response.rate();
    }
    drop(open);
    eventually(Duration::from_secs(2), "room again", || {
        key.request("GET", "/v1/pets")
            .try_send_on(&mut key.connect())
            .is_ok_and(|it| it.status == 200)
    });
    drop(app);
}

#[test]
fn a_shutdown_does_not_wait_for_handshakes_or_for_the_preface_of_http2() {
    let (mut app, key, certificate, _folder) = start(|_| {});
    let without_preface: Vec<_> = (0..3)
        .map(|_| Raw::silent(app.address(), &certificate))
        .collect();
    let silent: Vec<_> = (0..10)
        .map(|_| TcpStream::connect(app.address()).expect("a connection"))
        .collect();
    let mut idle = key.connect();
    assert_eq!(
        key.request("GET", "/v1/pets").send_on(&mut idle).status,
        200
    );
    let began = Instant::now();
    app.stop();
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    drop((silent, without_preface, idle));
}
