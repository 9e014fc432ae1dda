//! The log line of a request. It is formatted by hand, because a general formatter costs several times as much for every request.

use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use super::sink::{Buffer, Sink};
use super::{LogFormat, LogLevel};
use crate::clock::Timestamp;
use crate::key::KeyId;

#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// When it arrived.
    pub at: Timestamp,
    /// Its `X-Request-Id`.
    pub id: &'a [u8],
    /// Its method; none if there was no request.
    pub method: Option<&'static str>,
    /// The operation, or another label.
    pub operation: &'static str,
    pub client: IpAddr,
    pub status: u16,
    /// The time to the response.
    pub took: Duration,
    pub key: Option<KeyId>,
    /// Why a connection or a stream was rejected: the limit that was reached.
    pub reason: Option<&'static str>,
    /// The cause of a 500 or a 503, if the response does not contain it.
    pub cause: Option<&'a str>,
}

/// Writes the lines of one thread.
pub struct RequestLog {
    format: LogFormat,
    buffer: Option<Buffer>,
    previous: RefCell<PreviousLine>,
}

/// The second and the client of the previous line as text, which most lines of a busy server share.
#[derive(Debug, Default)]
struct PreviousLine {
    second: i64,
    second_text: Vec<u8>,
    client: Option<IpAddr>,
    client_text: Vec<u8>,
}

impl RequestLog {
    /// A log to this sink, or to nothing if the level excludes requests.
    pub fn new(sink: &Sink, format: LogFormat, level: LogLevel) -> Self {
        let buffer = (level >= LogLevel::INFO).then(|| sink.buffer());
        Self {
            format,
            buffer,
            previous: RefCell::default(),
        }
    }

    pub fn write(&self, line: &RequestLine<'_>) {
        let Some(buffer) = &self.buffer else { return };
        let mut previous = self.previous.borrow_mut();
        previous.set_second(line.at);
        previous.set_client(line.client);
        buffer.put_with(|out| match self.format {
            LogFormat::Text => write_text(out, &previous, line),
            LogFormat::Json => write_json(out, &previous, line),
        });
    }
}

impl PreviousLine {
    fn set_second(&mut self, at: Timestamp) {
        let second = at.as_millis().div_euclid(1000);
        if second != self.second || self.second_text.is_empty() {
            self.second = second;
            self.second_text = at.to_string().trim_end_matches('Z').into();
        }
    }

    fn set_client(&mut self, client: IpAddr) {
        if self.client != Some(client) {
            self.client = Some(client);
            self.client_text.clear();
            push_address(&mut self.client_text, client);
        }
    }

    /// Appends a point in time in this second, with milliseconds: `2026-11-15T08:00:00.123Z`.
    fn write(&self, out: &mut Vec<u8>, at: Timestamp) {
        out.extend_from_slice(&self.second_text);
        out.push(b'.');
        push_three(out, at.as_millis().rem_euclid(1000).unsigned_abs());
        out.push(b'Z');
    }
}

// Only a cause needs escaping: an ID has only letters, digits, - _ and dots.

fn write_text(out: &mut Vec<u8>, previous: &PreviousLine, line: &RequestLine<'_>) {
    previous.write(out, line.at);
    out.extend_from_slice(b"  INFO request id=");
    out.extend_from_slice(line.id);
    if let Some(method) = line.method {
        push_text(out, " method=", method);
    }
    push_text(out, " operation=", line.operation);
    out.extend_from_slice(b" client=");
    out.extend_from_slice(&previous.client_text);
    out.extend_from_slice(b" status=");
    push(out, line.status);
    out.extend_from_slice(b" ms=");
    push_millis(out, line.took);
    if let Some(key) = line.key {
        out.extend_from_slice(b" key=");
        push(out, key.0);
    }
    if let Some(reason) = line.reason {
        push_text(out, " reason=", reason);
    }
    if let Some(cause) = line.cause {
        // Writing to a Vec cannot fail.
        let _ = write!(out, " cause={cause:?}");
    }
    out.push(b'\n');
}

fn write_json(out: &mut Vec<u8>, previous: &PreviousLine, line: &RequestLine<'_>) {
    out.extend_from_slice(b"{\"timestamp\":\"");
    previous.write(out, line.at);
    out.extend_from_slice(b"\",\"level\":\"INFO\",\"message\":\"request\",\"id\":\"");
    out.extend_from_slice(line.id);
    if let Some(method) = line.method {
        push_text(out, "\",\"method\":\"", method);
    }
    push_text(out, "\",\"operation\":\"", line.operation);
    out.extend_from_slice(b"\",\"client\":\"");
    out.extend_from_slice(&previous.client_text);
    out.extend_from_slice(b"\",\"status\":");
    push(out, line.status);
    out.extend_from_slice(b",\"ms\":");
    push_millis(out, line.took);
    if let Some(key) = line.key {
        out.extend_from_slice(b",\"key\":");
        push(out, key.0);
    }
    if let Some(reason) = line.reason {
        push_text(out, ",\"reason\":\"", reason);
        out.push(b'"');
    }
    if let Some(cause) = line.cause {
        let _ = write!(out, ",\"cause\":{}", serde_json::Value::from(cause));
    }
    out.extend_from_slice(b"}\n");
}

/// Appends a name and its value.
fn push_text(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value.as_bytes());
}

/// Appends an address. An IPv4 address within IPv6 is written as IPv4.
fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for octet in address.octets() {
                push(out, octet);
                out.push(b'.');
            }
            out.pop();
        }
        // Writing to a Vec cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

/// Appends a duration in milliseconds with three decimals.
fn push_millis(out: &mut Vec<u8>, took: Duration) {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    push(out, micros / 1000);
    out.push(b'.');
    push_three(out, micros % 1000);
}

fn push(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number below 1,000 with three digits.
fn push_three(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&itoa::Buffer::new().format(1000 + number).as_bytes()[1..]);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LINE: RequestLine<'_> = RequestLine {
        at: Timestamp::from_millis(1_794_700_800_042),
        id: b"abc-1",
        method: Some("GET"),
        operation: "listPets",
        client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)),
        status: 200,
        took: Duration::from_micros(1_234),
        key: Some(KeyId(7)),
        reason: None,
        cause: None,
    };

    fn written(
        write: fn(&mut Vec<u8>, &PreviousLine, &RequestLine<'_>),
        line: &RequestLine<'_>,
    ) -> String {
        let mut previous = PreviousLine::default();
        previous.set_second(line.at);
        previous.set_client(line.client);
        let mut out = Vec::new();
        write(&mut out, &previous, line);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_for_people() {
        let text = written(write_text, &LINE);
        assert_eq!(
            text,
            "2026-11-15T00:00:00.042Z  INFO request id=abc-1 method=GET operation=listPets client=192.0.2.10 status=200 ms=1.234 key=7\n"
        );
    }

    #[test]
    fn a_rejected_connection_has_its_reason() {
        let line = RequestLine {
            method: None,
            operation: "connection",
            status: 503,
            key: None,
            reason: Some("address"),
            ..LINE
        };
        let text = written(write_text, &line);
        assert!(
            text.ends_with(" status=503 ms=1.234 reason=address\n"),
            "{text}"
        );
        let json = written(write_json, &line);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["reason"], "address");
    }

    #[test]
    fn the_cause_of_a_failure_is_escaped() {
        let cause = Some("cannot open \"a.db\":\ndisk full");
        let line = RequestLine { cause, ..LINE };
        let text = written(write_text, &line);
        let end = " key=7 cause=\"cannot open \\\"a.db\\\":\\ndisk full\"\n";
        assert!(text.ends_with(end), "{text}");
        let json: serde_json::Value = serde_json::from_str(&written(write_json, &line)).unwrap();
        assert_eq!(json["cause"].as_str(), cause);
    }

    #[test]
    fn an_address_has_its_usual_form() {
        for (address, text) in [
            ("0.0.0.0", "0.0.0.0"),
            ("255.10.9.100", "255.10.9.100"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            let mut out = Vec::new();
            push_address(&mut out, address.parse().unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn a_line_for_machines_is_one_json_object() {
        let text = written(write_json, &RequestLine { key: None, ..LINE });
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["method"], "GET");
        assert_eq!(value["operation"], "listPets");
        assert_eq!(value["client"], "192.0.2.10");
        assert_eq!(value["ms"], 1.234);
        assert_eq!(value["timestamp"], "2026-11-15T00:00:00.042Z");
        assert!(value.get("key").is_none());
    }
}
