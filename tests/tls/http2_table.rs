//! The dynamic table of HPACK: it is small, and a client that keeps a larger one costs little.

use crate::http2_hostile::flood;
use crate::http2_memory::{filler, memory, process};
use crate::http2_slow::server;
use crate::raw::*;

const GET: u8 = END_HEADERS | END_STREAM;

/// The instruction that reduces the table to 512 bytes, at the beginning of a head.
const REDUCES_TABLE: &[u8] = b"\x3f\xe1\x03";

/// The first byte of a path that becomes an entry of the table, and of one that does not.
const INDEXED: u8 = 0x44;
const NOT_INDEXED: u8 = 0x04;

/// A head that begins with this.
fn head(before: &[u8], path: u8) -> Vec<u8> {
    [before, b"\x82\x87", &[path], b"\x06/livez\x01\x01a"].concat()
}

#[test]
fn entries_cost_little_even_if_the_client_does_not_reduce_its_table_and_one_without_entries_stays()
{
    let (process, key, certificate, _folder) = process(&[]);
    assert_eq!(key.get("/v1/pets").status, 200);
    for (acknowledges, begins_with, path) in [
        (false, &b""[..], INDEXED),
        (true, b"", INDEXED),
        (true, REDUCES_TABLE, INDEXED),
        (true, b"", NOT_INDEXED),
    ] {
        let before = memory(&process);
        const MANY: u64 = 50;
        let open: Vec<(Raw, bool)> = (0..MANY)
            .map(|_| {
                let mut raw = Raw::connect(&key, &certificate, &[]);
                if acknowledges {
                    raw.send_frame(SETTINGS, ACK, 0, &[]);
                }
                flood(&mut raw, 100, |number| {
                    let head = head(if number == 0 { begins_with } else { b"" }, path);
                    let request = frame(HEADERS, GET, (number * 2 + 1) as u32, &head);
                    [filler(), request].concat()
                });
                let mut frames = std::iter::from_fn(|| raw.next());
                let is_served = frames.any(|frame| frame.stream == 199 && frame.has(END_STREAM));
                (raw, is_served)
            })
            .collect();
        let each = memory(&process).saturating_sub(before) / MANY;
        println!("{each} bytes for each of {MANY} connections");
        assert!(each <= 320 << 10, "{each}");
        let stays = begins_with == REDUCES_TABLE || path == NOT_INDEXED;
        assert!(open.iter().all(|(_, is_served)| *is_served == stays));
    }
}

#[test]
fn a_client_that_does_not_know_the_setting_is_asked_to_reconnect_and_gets_all_responses() {
    let (_app, key, certificate, _folder) = server(|_| {});
    let mut raw = Raw::connect(&key, &certificate, &[]);
    raw.send_frame(SETTINGS, ACK, 0, &[]);
    let (mut sent, mut responses, mut is_away) = (0, 0, false);
    loop {
        if !is_away && sent == responses {
            let request = frame(HEADERS, GET, sent * 2 + 1, &head(b"", INDEXED));
            raw.send(&[filler(), request].concat()).expect("sent");
            sent += 1;
        }
        match raw.next() {
            Some(frame) if frame.kind == GOAWAY => {
                assert_eq!(frame.error(), 0, "{frame:?}");
                is_away = true;
            }
            Some(frame) if frame.kind == PING => raw.send_frame(PING, ACK, 0, &frame.payload),
            Some(frame) => responses += u32::from(frame.stream > 0 && frame.has(END_STREAM)),
            None => break,
        }
    }
    assert!(
        is_away && sent > 5 && sent == responses,
        "{sent} {responses}"
    );
}
