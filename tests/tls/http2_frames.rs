//! Frames that RFC 9113 forbids, as h2spec sends them: each ends its stream or its connection, and no other client notices.

use crate::http2::raw_server;
use crate::raw::*;

/// What the client has done before.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    /// Stream 1 waits for its body.
    Open,
    /// Stream 1 waits for a response that the client leaves no room for.
    HalfClosed,
    /// Stream 1 has ended.
    Closed,
    /// The head on stream 1 has not ended.
    InHead,
}

/// What must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// A GOAWAY with this code.
    Connection(u32),
    /// A reset of stream 1 with this code; the connection goes on.
    Stream(u32),
    /// The response on stream 1.
    Response,
    /// No reset, and no GOAWAY.
    Nothing,
}

use Before::{Closed, HalfClosed, InHead, Open};
use Expected::{Connection, Stream};

const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;
const UNKNOWN: u8 = 0x16;
const PADDED: u8 = 8;
const WITH_PRIORITY: u8 = 0x20;

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;

/// Sends the frames after something else, and expects what must follow. Then others are served.
#[track_caller]
fn check(before: Before, cases: &[(&str, Vec<u8>, Expected)]) {
    let (_app, key, certificate, _folder) = raw_server();
    for (what, sent, expected) in cases {
        let window = u32::from(!matches!(before, HalfClosed)) * 65_535;
        let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, window)]);
        match before {
            Before::Nothing => {}
            Open => raw.post(1, &[]),
            HalfClosed => raw.get(1, "/docs"),
            Closed => {
                raw.get(1, "/v1/pets");
                assert_eq!(raw.response(1).0, 200);
            }
            InHead => {
                let head = raw.head("GET", "/v1/pets", &[]);
                raw.send_frame(HEADERS, END_STREAM, 1, &head);
            }
        }
        raw.send(sent).expect("sent");
        let mut goes_on = true;
        let found = match expected {
            Expected::Nothing => Expected::Nothing,
            Expected::Response => {
                undisturbed(&mut raw, 1, what);
                Expected::Response
            }
            _ => loop {
                match raw.next() {
                    Some(frame) if frame.kind == GOAWAY => {
                        goes_on = false;
                        break Connection(frame.error());
                    }
                    Some(frame) if frame.kind == RST_STREAM => {
                        assert_eq!(frame.stream, 1, "{what}");
                        break Stream(frame.error());
                    }
                    Some(_) => {}
                    None => panic!("{what}: closed without a word"),
                }
            },
        };
        assert_eq!(found, *expected, "{what}");
        if goes_on {
            raw.send_frame(WINDOW_UPDATE, 0, 0, &1_000_u32.to_be_bytes());
            raw.send_frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW, 1_000));
            raw.get(9, "/v1/pets");
            assert_eq!(undisturbed(&mut raw, 9, what), b"[]", "{what}");
        } else {
            while raw.next().is_some() {}
            assert!(raw.is_closed(), "{what}");
        }
        assert_eq!(key.get("/v1/pets").status, 200, "{what}");
    }
}

/// The body of the response on a stream, before which nothing is reset.
#[track_caller]
fn undisturbed(raw: &mut Raw, stream: u32, what: &str) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let frame = raw.next().unwrap_or_else(|| panic!("{what}: no response"));
        assert!(
            ![RST_STREAM, GOAWAY].contains(&frame.kind),
            "{what}: {frame:?}"
        );
        if frame.stream == stream && frame.kind == DATA {
            body.extend_from_slice(&frame.payload);
        }
        if frame.stream == stream && frame.has(END_STREAM) {
            return body;
        }
    }
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

fn settings(name: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &setting(name, value))
}

/// More room for the server to send.
fn window(stream: u32, size: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &size.to_be_bytes())
}

/// A head without a key: nothing but its frame matters.
fn head(flags: u8, stream: u32, prefix: &[u8], suffix: &[u8]) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/livez"),
        (":authority", "a.example"),
    ];
    let block = [prefix, &encode(&fields), suffix].concat();
    frame(HEADERS, flags, stream, &block)
}

const WHOLE: u8 = END_HEADERS | END_STREAM;

#[test]
fn frames_on_streams_that_do_not_exist_end_the_connection() {
    let data = |stream| frame(DATA, 0, stream, b"x");
    let reset = |stream| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    let decreasing = [head(WHOLE, 5, &[], &[]), head(WHOLE, 3, &[], &[])].concat();
    check(
        Before::Nothing,
        &[
            ("DATA, idle", data(1), Connection(PROTOCOL_ERROR)),
            ("RST_STREAM, idle", reset(1), Connection(PROTOCOL_ERROR)),
            (
                "WINDOW_UPDATE, idle",
                window(1, 9),
                Connection(PROTOCOL_ERROR),
            ),
            (
                "an even ID",
                head(WHOLE, 2, &[], &[]),
                Connection(PROTOCOL_ERROR),
            ),
            ("a decreasing ID", decreasing, Connection(PROTOCOL_ERROR)),
            ("DATA, 0", data(0), Connection(PROTOCOL_ERROR)),
            (
                "HEADERS, 0",
                head(WHOLE, 0, &[], &[]),
                Connection(PROTOCOL_ERROR),
            ),
            ("RST_STREAM, 0", reset(0), Connection(PROTOCOL_ERROR)),
            (
                "PRIORITY, 0",
                frame(PRIORITY, 0, 0, &[0; 5]),
                Connection(PROTOCOL_ERROR),
            ),
            (
                "CONTINUATION without HEADERS",
                frame(CONTINUATION, END_HEADERS, 1, &[]),
                Connection(PROTOCOL_ERROR),
            ),
            (
                "PUSH_PROMISE",
                frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
                Connection(PROTOCOL_ERROR),
            ),
        ],
    );
}

#[test]
fn frames_on_a_stream_that_has_ended_are_errors_or_without_effect() {
    check(
        Closed,
        &[
            ("DATA", frame(DATA, 0, 1, b"x"), Stream(STREAM_CLOSED)),
            (
                "HEADERS: the ID does not increase",
                head(WHOLE, 1, &[], &[]),
                Connection(PROTOCOL_ERROR),
            ),
            ("WINDOW_UPDATE", window(1, 9), Expected::Nothing),
            (
                "RST_STREAM",
                frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()),
                Expected::Nothing,
            ),
            (
                "PRIORITY",
                frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 9]),
                Expected::Nothing,
            ),
        ],
    );
}

#[test]
fn malformed_heads_and_bodies_end_their_stream_or_the_connection() {
    let on_itself = [0, 0, 0, 1, 9];
    let trailers = frame(HEADERS, END_HEADERS, 1, &encode(&[("x", "y")]));
    check(
        Before::Nothing,
        &[
            (
                "padding as long as the frame",
                frame(HEADERS, WHOLE | PADDED, 1, &[1]),
                Connection(PROTOCOL_ERROR),
            ),
            (
                "padding that is longer",
                head(WHOLE | PADDED, 1, &[255], &[0; 9]),
                Connection(PROTOCOL_ERROR),
            ),
            (
                "padding",
                head(WHOLE | PADDED, 1, &[9], &[0; 9]),
                Expected::Response,
            ),
            (
                "a stream that depends on itself",
                head(WHOLE | WITH_PRIORITY, 1, &on_itself, &[]),
                Stream(PROTOCOL_ERROR),
            ),
        ],
    );
    check(
        Open,
        &[
            (
                "padding that is longer than the body",
                frame(DATA, PADDED, 1, &[9, 0]),
                Connection(PROTOCOL_ERROR),
            ),
            (
                "trailers that do not end the stream",
                trailers,
                Stream(PROTOCOL_ERROR),
            ),
            (
                "a frame that is too large",
                frame(DATA, 0, 1, &[0; 16_385]),
                Connection(FRAME_SIZE_ERROR),
            ),
        ],
    );
    let connection = Connection(PROTOCOL_ERROR);
    check(
        InHead,
        &[
            ("HEADERS", head(WHOLE, 1, &[], &[]), connection),
            ("HEADERS, another", head(WHOLE, 3, &[], &[]), connection),
            ("DATA", frame(DATA, 0, 1, b"x"), connection),
            ("PING", frame(PING, 0, 0, &[0; 8]), connection),
            ("PRIORITY", frame(PRIORITY, 0, 1, &[0; 5]), connection),
            ("unknown", frame(UNKNOWN, 0, 1, b"x"), connection),
            (
                "CONTINUATION, another",
                frame(CONTINUATION, END_HEADERS, 3, &[]),
                connection,
            ),
            (
                "CONTINUATION",
                frame(CONTINUATION, END_HEADERS, 1, &[]),
                Expected::Response,
            ),
        ],
    );
}

#[test]
fn windows_that_overflow_or_do_not_grow_are_errors() {
    const MOST: u32 = (1 << 31) - 1;
    check(
        Open,
        &[
            ("0", window(0, 0), Connection(PROTOCOL_ERROR)),
            // A stream error, which a server may treat as a connection error.
            ("0 of a stream", window(1, 0), Connection(PROTOCOL_ERROR)),
            ("overflow", window(0, MOST), Connection(FLOW_CONTROL_ERROR)),
            (
                "overflow of a stream",
                window(1, MOST),
                Stream(FLOW_CONTROL_ERROR),
            ),
            (
                "overflow by a setting",
                [window(1, MOST - 65_535), settings(INITIAL_WINDOW, 65_536)].concat(),
                Connection(FLOW_CONTROL_ERROR),
            ),
        ],
    );
}

#[test]
fn settings_out_of_range_and_frames_of_the_connection_on_a_stream_end_the_connection() {
    let protocol = Connection(PROTOCOL_ERROR);
    check(
        Open,
        &[
            ("ENABLE_PUSH 2", settings(2, 2), protocol),
            ("MAX_FRAME_SIZE, small", settings(5, 16_383), protocol),
            ("MAX_FRAME_SIZE, large", settings(5, 1 << 24), protocol),
            ("an unknown setting", settings(0xff, 1), Expected::Nothing),
            ("SETTINGS, 1", frame(SETTINGS, 0, 1, &[]), protocol),
            ("PING, 1", frame(PING, 0, 1, &[0; 8]), protocol),
            ("GOAWAY, 1", frame(GOAWAY, 0, 1, &[0; 8]), protocol),
            (
                "an unknown frame",
                frame(UNKNOWN, 0xff, 0, b"x"),
                Expected::Nothing,
            ),
            (
                "an unknown frame, 1",
                frame(UNKNOWN, 0xff, 1, b"x"),
                Expected::Nothing,
            ),
        ],
    );
}

/// The RFC has a specific code for these. h2 detects them, but reports them as `PROTOCOL_ERROR`.
#[test]
fn errors_with_a_code_of_their_own_end_the_connection_as_protocol_errors() {
    let protocol = Connection(PROTOCOL_ERROR);
    check(
        HalfClosed,
        &[
            ("STREAM_CLOSED: DATA", frame(DATA, 0, 1, b"x"), protocol),
            ("STREAM_CLOSED: HEADERS", head(WHOLE, 1, &[], &[]), protocol),
        ],
    );
    check(
        Before::Nothing,
        &[
            (
                "COMPRESSION_ERROR: an index that is not in the table",
                frame(HEADERS, WHOLE, 1, &[0xff, 0x7f]),
                protocol,
            ),
            (
                "FLOW_CONTROL_ERROR: INITIAL_WINDOW of 2³¹",
                settings(INITIAL_WINDOW, 1 << 31),
                protocol,
            ),
        ],
    );
    let wrong_size = |kind, flags, stream, size| {
        let what = "FRAME_SIZE_ERROR";
        (what, frame(kind, flags, stream, &vec![0; size]), protocol)
    };
    check(
        Open,
        &[
            wrong_size(SETTINGS, 0, 0, 5),
            wrong_size(SETTINGS, ACK, 0, 6),
            wrong_size(PING, 0, 0, 7),
            wrong_size(RST_STREAM, 0, 1, 3),
            wrong_size(PRIORITY, 0, 1, 4),
            wrong_size(WINDOW_UPDATE, 0, 0, 3),
        ],
    );
}
