//! The line of a request. Written by hand, because it is written for every request:
//! the same line through a general formatter costs several times as much.

use std::fmt::Write;
use std::time::Duration;

use super::sink::{Buffer, Sink};
use super::{LogFormat, LogLevel};
use crate::clock::Timestamp;
use crate::key::KeyId;

/// What is told of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// When it came.
    pub at: Timestamp,
    /// Its `X-Request-Id`.
    pub id: &'a str,
    /// What it asked for.
    pub operation: &'static str,
    /// What it was answered.
    pub status: u16,
    /// How long that took.
    pub took: Duration,
    /// Who asked.
    pub key: Option<KeyId>,
}

/// Writes the lines of one thread.
#[derive(Debug)]
pub struct RequestLog {
    format: LogFormat,
    buffer: Option<Buffer>,
}

impl RequestLog {
    /// A log into this sink, or into nothing where requests are not wanted.
    pub fn new(sink: &Sink, format: LogFormat, level: LogLevel) -> Self {
        Self {
            format,
            buffer: (level >= LogLevel::Info).then(|| sink.buffer()),
        }
    }

    /// Writes one line.
    pub fn write(&self, line: &RequestLine<'_>) {
        let Some(buffer) = &self.buffer else { return };
        let mut text = String::with_capacity(192);
        match self.format {
            LogFormat::Text => write_text(&mut text, line),
            LogFormat::Json => write_json(&mut text, line),
        }
        buffer.put(text.as_bytes());
    }
}

// Writing to a String cannot fail; and no part of a line needs escaping: an id has only letters, digits, - _ and dots.

fn write_text(text: &mut String, line: &RequestLine<'_>) {
    write_time(text, line.at);
    let _ = write!(
        text,
        "  INFO request id={} operation={} status={} ms={}",
        line.id,
        line.operation,
        line.status,
        Millis(line.took)
    );
    if let Some(key) = line.key {
        let _ = write!(text, " key={key}");
    }
    text.push('\n');
}

fn write_json(text: &mut String, line: &RequestLine<'_>) {
    text.push_str("{\"timestamp\":\"");
    write_time(text, line.at);
    let _ = write!(
        text,
        "\",\"level\":\"INFO\",\"message\":\"request\",\"id\":\"{}\",\"operation\":\"{}\",\"status\":{},\"ms\":{}",
        line.id,
        line.operation,
        line.status,
        Millis(line.took)
    );
    if let Some(key) = line.key {
        let _ = write!(text, ",\"key\":{key}");
    }
    text.push_str("}\n");
}

/// A duration in milliseconds to three places.
struct Millis(Duration);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = self.0.as_micros();
        write!(f, "{}.{:03}", micros / 1000, micros % 1000)
    }
}

/// Appends a moment with its milliseconds: `2026-11-15T08:00:00.123Z`.
pub(super) fn write_time(text: &mut String, at: Timestamp) {
    let _ = write!(text, "{at}");
    if text.ends_with('Z') {
        text.pop();
        let _ = write!(text, ".{:03}Z", at.as_millis().rem_euclid(1000));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: RequestLine<'_> = RequestLine {
        at: Timestamp::from_millis(1_794_700_800_042),
        id: "abc-1",
        operation: "listPets",
        status: 200,
        took: Duration::from_micros(1_234),
        key: Some(KeyId(7)),
    };

    #[test]
    fn a_line_for_people() {
        let mut text = String::new();
        write_text(&mut text, &LINE);
        assert_eq!(
            text,
            "2026-11-15T00:00:00.042Z  INFO request id=abc-1 operation=listPets status=200 ms=1.234 key=7\n"
        );
    }

    #[test]
    fn a_line_for_machines_is_one_json_object() {
        let mut text = String::new();
        write_json(&mut text, &RequestLine { key: None, ..LINE });
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["operation"], "listPets");
        assert_eq!(value["ms"], 1.234);
        assert_eq!(value["timestamp"], "2026-11-15T00:00:00.042Z");
        assert!(value.get("key").is_none());
    }
}
