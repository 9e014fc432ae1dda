//! Connections over a byte stream that is not a socket, with a service that streams.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connections::{ConnectionLimits, Connections, Maximum};
use super::request_id::RequestIds;
use super::service::ThreadState;
use super::*;
use crate::clock::{Clock, Timestamp};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A stream that has no end and never waits.
fn large() -> impl Stream<Item = io::Result<Bytes>> {
    stream::repeat_with(|| Ok(Bytes::from_static(&[b'x'; 4096])))
}

/// Responds with a stream of parts. `/broken` fails after the first, `/events` waits after it, `/large` is `large()`,
/// `/late` pauses before each part, and `/body` reads the body of the request.
struct Parts;

impl Service for Parts {
    type PerConnection = ();

    async fn respond(
        &self,
        head: &Head<'_>,
        body: &mut RequestBody,
        _: &Exchange,
        (): &(),
    ) -> Response {
        let first = stream::iter([Ok(Bytes::from_static(b"one"))]);
        let mut response = Response::new(StatusCode::OK);
        response.body = match head.path {
            "/broken" => Body::streamed(first.chain(stream::once(async {
                // hyper discards what it has not sent yet.
                tokio::time::sleep(SETTLE_TIME).await;
                Err(io::ErrorKind::Other.into())
            }))),
            "/events" => Body::streamed(first.chain(stream::pending())),
            "/large" => Body::streamed(large()),
            "/late" => Body::streamed(stream::repeat(()).then(|()| async {
                tokio::time::sleep(2 * SHORT_TIMEOUT).await;
                Ok(Bytes::from_static(&[b'x'; LATE_PART]))
            })),
            "/body" => {
                let body = match body.next().await {
                    Ok(_) => "whole",
                    Err(_) => "broken",
                };
                Bytes::from_static(body.as_bytes()).into()
            }
            "/whole" => Bytes::from(vec![b'x'; 1 << 20]).into(),
            _ => Body::streamed(stream::iter([
                Ok(Bytes::from_static(b"one")),
                Ok(Bytes::from_static(b"two")),
            ])),
        };
        response
    }

    fn reject(&self, _: Rejection, _: IpAddr, _: &RequestId) -> Response {
        Response::new(StatusCode::REQUEST_TIMEOUT)
    }

    fn clock(&self) -> &Clock {
        static CLOCK: LazyLock<Clock> = LazyLock::new(|| Clock::manual(Timestamp::from_secs(0)));
        &CLOCK
    }
}

fn connections(total: usize) -> Connections {
    let maximum = Maximum {
        total,
        per_address: usize::MAX,
    };
    Connections::new(ConnectionLimits {
        connections: maximum,
        streams: maximum,
        is_exempt: Box::new(|_| false),
    })
}

/// A timeout that no test waits for.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);

/// A timeout that tests wait for, longer than a pause of the machine.
const SHORT_TIMEOUT: Duration = Duration::from_millis(800);

/// The size of a part of `/late`: more than the buffers of a connection.
const LATE_PART: usize = 128 * 1024;

/// A pause after which everything that does not have to wait has happened.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// A connection to the service, served by a new task.
fn connect(connections: &Connections) -> DuplexStream {
    connect_with(connections, LONG_TIMEOUT, LONG_TIMEOUT, &Rc::default())
}

fn connect_with(
    connections: &Connections,
    request: Duration,
    idle: Duration,
    draining: &Rc<Cell<bool>>,
) -> DuplexStream {
    let (client, server) = duplex(64 * 1024);
    let slot = connections.enter(PEER).unwrap();
    let thread = ThreadState {
        service: Parts,
        ids: RequestIds::new().unwrap(),
        timeouts: Timeouts { request, idle },
        draining: Rc::clone(draining),
        lingering: Cell::new(0),
        tasks: TaskTracker::new(),
    };
    tokio::task::spawn_local(async move { connection::serve(server, slot, PEER, &thread).await });
    client
}

/// How long it takes until no connection is open.
async fn until_closed(connections: &Connections) -> Duration {
    let began = Instant::now();
    while connections.count() > 0 && began.elapsed() < 10 * SHORT_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    began.elapsed()
}

async fn send(client: &mut DuplexStream, target: &str) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
}

/// Reads until the text ends with this, or the connection does.
async fn read_until(client: &mut DuplexStream, end: &str) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 1024];
    while !text.ends_with(end.as_bytes()) {
        match client.read(&mut buffer).await.unwrap() {
            0 => break,
            read => text.extend_from_slice(&buffer[..read]),
        }
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test(flavor = "local")]
async fn a_streamed_body_is_sent_in_chunks_and_the_connection_stays_open() {
    let mut client = connect(&connections(1));
    for _ in 0..2 {
        send(&mut client, "/").await;
        let response = read_until(&mut client, "0\r\n\r\n").await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(
            response.contains("transfer-encoding: chunked\r\n"),
            "{response}"
        );
        assert!(
            response.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
            "{response}"
        );
    }
}

#[tokio::test(flavor = "local")]
async fn a_streamed_body_that_fails_ends_the_connection_without_a_last_chunk() {
    let mut client = connect(&connections(1));
    send(&mut client, "/broken").await;
    let response = read_until(&mut client, "0\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\n3\r\none\r\n"), "{response}");
}

#[tokio::test(flavor = "local")]
async fn a_connection_is_busy_while_its_body_is_streamed() {
    let connections = connections(1);
    let mut client = connect(&connections);
    send(&mut client, "/events").await;
    read_until(&mut client, "one\r\n").await;
    assert_eq!(connections.enter(PEER).err(), Some(ReachedLimit::Total));
}

#[tokio::test(flavor = "local")]
async fn a_client_that_does_not_read_a_streamed_body_is_disconnected() {
    let connections = connections(1);
    let mut client = connect_with(&connections, LONG_TIMEOUT, SHORT_TIMEOUT, &Rc::default());
    send(&mut client, "/large").await;
    let took = until_closed(&connections).await;
    assert!(
        (SHORT_TIMEOUT..5 * SHORT_TIMEOUT).contains(&took),
        "{took:?}"
    );
}

#[tokio::test(flavor = "local")]
async fn a_streamed_body_may_pause_and_its_client_has_the_idle_timeout_for_each_part() {
    let connections = connections(1);
    let mut client = connect_with(&connections, LONG_TIMEOUT, SHORT_TIMEOUT, &Rc::default());
    send(&mut client, "/late").await;
    let mut part = vec![0; LATE_PART];
    for _ in 0..3 {
        // A quarter of a timeout after the part: it does not fit into the buffer, so the server waits for the client.
        tokio::time::sleep(2 * SHORT_TIMEOUT + SHORT_TIMEOUT / 4).await;
        client.read_exact(&mut part).await.unwrap();
    }
    assert_eq!(connections.count(), 1);
    let took = until_closed(&connections).await;
    assert!(took < 6 * SHORT_TIMEOUT, "{took:?}");
}

#[tokio::test(flavor = "local")]
async fn a_client_that_does_not_read_a_streamed_body_is_evicted_for_another() {
    let connections = connections(1);
    let mut client = connect(&connections);
    send(&mut client, "/large").await;
    tokio::time::sleep(SETTLE_TIME).await;
    let _other = connections.enter(PEER).unwrap();
    tokio::time::sleep(SETTLE_TIME).await;
    let mut sent = Vec::new();
    client.read_to_end(&mut sent).await.unwrap();
    assert!(sent.len() <= 64 * 1024, "{}", sent.len());
}

#[tokio::test(flavor = "local")]
async fn a_streamed_body_that_is_not_read_is_aborted_at_shutdown() {
    let (connections, draining) = (connections(1), Rc::default());
    let mut client = connect_with(&connections, LONG_TIMEOUT, LONG_TIMEOUT, &draining);
    send(&mut client, "/large").await;
    tokio::time::sleep(SETTLE_TIME).await;
    draining.set(true);
    connections.wake_all();
    let took = until_closed(&connections).await;
    assert!(took < LONG_TIMEOUT / 10, "{took:?}");
    let mut sent = Vec::new();
    client.read_to_end(&mut sent).await.unwrap();
    assert!(sent.starts_with(b"HTTP/1.1 200 "));
    assert!(!sent.ends_with(b"0\r\n\r\n"), "as if complete");
}

#[tokio::test(flavor = "local")]
async fn a_body_without_an_end_is_complete_at_shutdown() {
    let (connections, draining) = (connections(1), Rc::default());
    let mut client = connect_with(&connections, LONG_TIMEOUT, LONG_TIMEOUT, &draining);
    send(&mut client, "/events").await;
    read_until(&mut client, "one\r\n").await;
    draining.set(true);
    connections.wake_all();
    assert_eq!(read_until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
}

#[tokio::test(flavor = "local")]
async fn a_connection_whose_request_body_does_not_arrive_is_evicted_for_another() {
    let connections = connections(1);
    let mut client = connect(&connections);
    let head = "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(SETTLE_TIME).await;
    let _other = connections.enter(PEER).unwrap();
    let response = read_until(&mut client, "no end").await;
    assert!(response.ends_with("broken"), "{response:?}");
}

#[tokio::test(flavor = "local")]
async fn a_connection_that_sends_a_response_is_evicted_after_the_idle_ones() {
    let connections = connections(2);
    let mut reader = connect(&connections);
    send(&mut reader, "/whole").await;
    reader.read_u8().await.unwrap();
    let mut idle = connect(&connections);
    let slot = connections.enter(PEER).unwrap();
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
    drop(slot);
    let mut response = vec![0; 1 << 20];
    reader.read_exact(&mut response).await.unwrap();
}

#[tokio::test(flavor = "local")]
async fn an_incomplete_head_is_rejected_after_the_timeout() {
    let mut client = connect_with(
        &connections(1),
        Duration::from_millis(20),
        LONG_TIMEOUT,
        &Rc::default(),
    );
    client.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
    let response = read_until(&mut client, "no end").await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(response.contains("connection: close\r\n"), "{response}");
}
