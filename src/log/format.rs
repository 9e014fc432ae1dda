//! The format of the log.

use serde_json::json;

use crate::clock::Timestamp;

/// The format of lines: for people, or one JSON object each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The time at the beginning of a line: `2026-11-15T08:00:00.123Z`.
pub(super) fn time(at: Timestamp) -> String {
    let second = at.to_string();
    let millis = at.as_millis().rem_euclid(1000);
    format!("{}.{millis:03}Z", second.trim_end_matches('Z'))
}

/// An error as a line of JSON, with the members of an event.
pub(crate) fn json_error(message: &str, at: Timestamp) -> String {
    let line = json!({"timestamp": time(at), "level": "ERROR", "message": message});
    format!("{line}\n")
}
