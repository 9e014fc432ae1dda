//! Connections over a byte stream that is no socket, with a service that streams.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::connections::{Caps, Connections, Full};
use super::request_id::RequestIds;
use super::worker::Worker;
use super::*;
use crate::clock::Timestamp;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Responds with a stream of parts. `/broken` fails behind the first, `/endless` waits behind it.
struct Parts;

impl Service for Parts {
    async fn respond(&self, head: &Head<'_>, _: &mut RequestBody, _: &Exchange) -> Response {
        let first = stream::iter([Ok(Bytes::from_static(b"one"))]);
        let mut response = Response::new(StatusCode::OK);
        response.body = match head.path {
            "/broken" => Body::streamed(stream::iter([
                Ok(Bytes::from_static(b"one")),
                Err(io::ErrorKind::Other.into()),
            ])),
            "/endless" => {
                use futures_util::StreamExt;
                Body::streamed(first.chain(stream::pending()))
            }
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

    fn now(&self) -> Timestamp {
        Timestamp::from_secs(0)
    }
}

fn connections(total: usize) -> Connections {
    Connections::new(Caps {
        total,
        per_address: usize::MAX,
        is_exempt: Box::new(|_| false),
    })
}

/// A connection to the service, which a task of its own serves.
fn connect(connections: &Connections) -> DuplexStream {
    connect_with(connections, Duration::from_secs(30))
}

fn connect_with(connections: &Connections, request: Duration) -> DuplexStream {
    let (client, server) = duplex(64 * 1024);
    let slot = connections.enter(PEER).unwrap();
    let worker = Worker {
        service: Parts,
        ids: RequestIds::new().unwrap(),
        timeouts: Timeouts {
            request,
            idle: Duration::from_secs(30),
        },
        draining: Default::default(),
        lingering: Cell::new(0),
    };
    tokio::task::spawn_local(async move { connection::serve(server, slot, PEER, &worker).await });
    client
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
async fn a_streamed_body_is_sent_in_chunks_and_the_connection_goes_on() {
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
    assert!(!response.ends_with("0\r\n\r\n"), "{response}");
}

#[tokio::test(flavor = "local")]
async fn a_connection_is_busy_while_its_body_is_streamed() {
    let connections = connections(1);
    let mut client = connect(&connections);
    send(&mut client, "/endless").await;
    read_until(&mut client, "one\r\n").await;
    assert_eq!(connections.enter(PEER).unwrap_err(), Full::Total);
}

#[tokio::test(flavor = "local")]
async fn half_a_head_is_rejected_when_its_time_is_up() {
    let mut client = connect_with(&connections(1), Duration::from_millis(20));
    client.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
    let response = read_until(&mut client, "no end").await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(response.contains("connection: close\r\n"), "{response}");
}
