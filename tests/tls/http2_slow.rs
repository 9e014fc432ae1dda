//! Clients of HTTP/2 that are slow: each request has its own deadline, and others on the same connection are served meanwhile.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use animal_store::config::{Config, TlsFiles};
use harness::{App, Certificate, Client, Stopwatch};
use tempfile::TempDir;

use crate::folder;
use crate::raw::*;

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);

/// A response that is larger than any window of a test.
const LARGE: &str = "/docs";

pub(crate) fn server(change: impl FnOnce(&mut Config)) -> (App, Client, Certificate, TempDir) {
    let (folder, certificate) = (folder(), Certificate::new());
    let (cert, key) = certificate.write(folder.path());
    let (app, _, client) = App::start_with(|config| {
        config.tls = Some(TlsFiles { cert, key });
        change(config);
    });
    let client = client.over(&certificate.http2_client());
    (app, client, certificate, folder)
}

fn with_timeouts(request: Duration, idle: Duration) -> (App, Client, Certificate, TempDir) {
    server(|config| {
        config.request_timeout = request;
        config.idle_timeout = idle;
    })
}

#[track_caller]
fn is_on_time(began: Stopwatch) {
    let (least, took) = (began.elapsed_with_pauses(), began.elapsed());
    assert!(
        least >= SHORT.mul_f32(0.9) && took < SHORT * 4,
        "{least:?}, {took:?}"
    );
}

#[test]
fn a_body_that_trickles_is_408_and_other_streams_are_served_meanwhile() {
    let (_app, key, certificate, _folder) = with_timeouts(SHORT, LONG);
    let mut raw = Raw::connect(&key, &certificate, &[]);
    let began = Stopwatch::start();
    raw.post(1, &[("content-length", "1000")]);
    let mut stream = 3;
    while began.elapsed_with_pauses() < SHORT.mul_f32(0.8) {
        raw.send_frame(DATA, 0, 1, b"x");
        raw.get(stream, "/v1/pets");
        assert_eq!(raw.response(stream).1, b"[]");
        stream += 2;
        std::thread::sleep(Duration::from_millis(20));
    }
    let (_, body) = raw.response(1);
    assert!(String::from_utf8_lossy(&body).contains("request_timeout"));
    is_on_time(began);
    raw.get(stream, "/v1/pets");
    assert_eq!(raw.response(stream).1, b"[]");
}

#[test]
fn a_client_without_a_preface_or_with_an_incomplete_one_is_disconnected() {
    let (_app, key, certificate, _folder) = with_timeouts(SHORT, LONG);
    for sent in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
        let began = Stopwatch::start();
        let mut raw = Raw::silent(key.address, &certificate);
        raw.send(sent).expect("sent");
        while raw.next().is_some() {}
        is_on_time(began);
    }
}

#[test]
fn a_connection_with_an_incomplete_head_is_closed_in_time_though_other_requests_are_in_flight_and_its_bytes_trickle()
 {
    let (_app, key, certificate, _folder) = with_timeouts(SHORT, LONG);
    for busy in [false, true] {
        let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0)]);
        if busy {
            // A response that the client does not read keeps its request in flight.
            raw.get(1, LARGE);
            raw.next_of(HEADERS).expect("a response");
        }
        let head = raw.head("GET", "/v1/pets", &[]);
        let head = frame(HEADERS, END_HEADERS | END_STREAM, 3, &head);
        let began = Instant::now();
        raw.send(&head[..40]).expect("sent");
        for byte in &head[40..head.len() - 1] {
            if raw.send(&[*byte]).is_err() || began.elapsed() > SHORT * 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        raw.set_read_timeout(SHORT * 2);
        while raw.next().is_some() {}
        assert!(raw.is_closed(), "still open after {:?}", began.elapsed());
    }
}

#[test]
fn an_idle_connection_is_closed_with_goaway_though_it_is_pinged() {
    let (_app, key, certificate, _folder) = with_timeouts(LONG, SHORT);
    let mut raw = Raw::connect(&key, &certificate, &[]);
    let began = Stopwatch::start();
    raw.get(1, "/v1/pets");
    assert_eq!(raw.response(1).0, 200);
    raw.set_read_timeout(Duration::from_millis(50));
    let mut away = false;
    while began.elapsed() < SHORT * 4 {
        if raw.send(&frame(PING, 0, 0, &[7; 8])).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        match raw.next() {
            Some(frame) if frame.kind == GOAWAY => {
                assert_eq!(frame.error(), 0);
                away = true;
                break;
            }
            _ => {}
        }
    }
    assert!(away);
    is_on_time(began);
}

#[test]
fn a_response_that_is_not_read_has_its_stream_reset_and_others_are_served_meanwhile() {
    for window in [0, 1, 1_000] {
        let (_app, key, certificate, _folder) = with_timeouts(LONG, SHORT);
        let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, window)]);
        let began = Stopwatch::start();
        raw.get(1, LARGE);
        let head = raw.next_of(HEADERS).expect("a response");
        assert_eq!(head.stream, 1);
        // Others get their responses, because they have their own windows.
        let mut stream = 3;
        let reset = loop {
            raw.get(stream, "/v1/pets");
            raw.send_frame(WINDOW_UPDATE, 0, stream, &1_000_u32.to_be_bytes());
            let reset = loop {
                let frame = raw.next().expect("a response");
                match frame.stream {
                    1 if frame.kind == RST_STREAM => break Some(frame),
                    other if other == stream && frame.has(END_STREAM) => break None,
                    _ => {}
                }
            };
            stream += 2;
            if let Some(reset) = reset {
                break reset;
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(began.elapsed() < SHORT * 4, "never reset");
        };
        assert_eq!(reset.error(), 8, "{reset:?}");
        is_on_time(began);
    }
}

#[test]
fn a_response_that_is_read_slowly_but_fast_enough_is_not_reset() {
    // 1 KiB a second, measured over the timeout, which is longer than a pause of the machine.
    let timeout = SHORT * 2;
    let (_app, key, certificate, _folder) = with_timeouts(LONG, timeout);
    let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 300)]);
    raw.get(1, "/openapi.json");
    let began = Instant::now();
    let mut body = Vec::new();
    while body.len() < 12_000 {
        let frame = raw.next().expect("data");
        assert!(
            [SETTINGS, HEADERS, DATA, PING, WINDOW_UPDATE].contains(&frame.kind),
            "{frame:?}"
        );
        if frame.kind == DATA {
            body.extend_from_slice(&frame.payload);
            std::thread::sleep(Duration::from_millis(80));
            raw.send_frame(WINDOW_UPDATE, 0, 1, &300_u32.to_be_bytes());
        }
    }
    assert!(began.elapsed() > timeout * 3, "{:?}", began.elapsed());
}

#[test]
fn a_client_that_does_not_read_its_socket_makes_room_for_another() {
    let (app, key, certificate, _folder) = server(|config| {
        config.max_connections = 1;
        config.idle_timeout = LONG;
    });
    let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0x7fff_ffff)]);
    raw.send_frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    for stream in (1..200).step_by(2) {
        raw.get(stream, LARGE);
        // Without a pause, those beyond the limit on streams would be 503.
        std::thread::sleep(Duration::from_millis(2));
    }
    // Until the buffers of the system are full.
    std::thread::sleep(SHORT);
    let began = Instant::now();
    while raw.send(&frame(PING, 0, 0, &[7; 8])).is_ok() {
        let _other = TcpStream::connect(app.address()).expect("a connection");
        std::thread::sleep(SHORT / 10);
        assert!(began.elapsed() < SHORT * 20, "still open");
    }
    println!("closed after {:?}", began.elapsed());
}

#[test]
fn a_client_that_does_not_read_its_socket_is_closed() {
    let (app, key, certificate, _folder) = with_timeouts(LONG, SHORT);
    let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0x7fff_ffff)]);
    raw.send_frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    for stream in (1..200).step_by(2) {
        raw.get(stream, LARGE);
    }
    let began = Instant::now();
    // The system buffers megabytes, and the rest is never read.
    let closed = loop {
        if let Err(error) = raw.send(&frame(PING, 0, 0, &[7; 8])) {
            break error;
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(began.elapsed() < SHORT * 20, "still open");
    };
    println!("{closed} after {:?}", began.elapsed());
    drop(app);
}

#[test]
fn a_response_that_is_read_slowly_during_a_shutdown_arrives_whole() {
    // The GOAWAY is final when the client has acknowledged a PING.
    for acknowledges in [true, false] {
        let (mut app, key, certificate, _folder) = server(|_| {});
        let mut raw = Raw::connect(&key, &certificate, &[]);
        raw.set_receive_buffer(4_096);
        raw.get(1, LARGE);
        raw.next_of(DATA).expect("a response");
        let stopping = std::thread::spawn(move || app.stop());
        loop {
            let Frame {
                kind,
                flags,
                stream,
                payload,
            } = raw.next().expect("the rest of the response");
            if kind == DATA {
                let read = (payload.len() as u32).to_be_bytes();
                for stream in [0, 1] {
                    let _ = raw.send(&frame(WINDOW_UPDATE, 0, stream, &read));
                }
            } else if kind == PING && acknowledges {
                raw.send_frame(PING, ACK, 0, &payload);
            }
            if stream == 1 && flags & END_STREAM != 0 {
                break;
            }
        }
        drop(raw);
        stopping.join().expect("stopped");
    }
}

#[test]
fn a_response_before_the_body_was_read_reaches_a_client_that_continues_to_send_during_a_shutdown() {
    let (mut app, key, certificate, _folder) = server(|_| {});
    let mut raw = Raw::connect(&key, &certificate, &[]);
    raw.post(1, &[]);
    raw.get(3, "/v1/pets");
    assert_eq!(raw.response(3).0, 200);
    let stopping = std::thread::spawn(move || app.stop());
    assert!(raw.next_of(GOAWAY).is_some());
    // The body is too large from its second part on.
    for _ in 0..2 {
        raw.send_frame(DATA, 0, 1, &[b'x'; 10_000]);
    }
    assert_eq!(raw.response(1).0, 413);
    std::thread::sleep(Duration::from_millis(300));
    raw.send_frame(DATA, END_STREAM, 1, &[b'x'; 30]);
    while let Some(frame) = raw.next() {
        assert_ne!(frame.kind, RST_STREAM, "{frame:?}");
    }
    stopping.join().expect("stopped");
}
