//! Output of commands as JSON or lines.

use std::io::{self, Write};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use super::outcome::Outcome;

/// The context of a failed write to standard output.
pub(super) const WRITE_FAILED: &str = "cannot write to standard output";

/// Timeout for standard error, which may be a pipe that nobody reads.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Prints an error as one line to standard error.
pub(super) fn error(message: &str) {
    let line = format!("animal-store: {}\n", message.replace('\n', " "));
    let (printed, done) = mpsc::channel();
    let print = move || {
        let _ = io::stderr().write_all(line.as_bytes());
        let _ = printed.send(());
    };
    if std::thread::Builder::new().spawn(print).is_ok() {
        let _ = done.recv_timeout(TIMEOUT);
    }
}

/// Prints one line to standard output.
pub(super) fn line(text: &str) -> Outcome {
    Ok(writeln!(io::stdout(), "{text}").context(WRITE_FAILED)?)
}

/// Prints the result of a command: as one line of JSON, or as `text`.
pub(super) fn result(json: bool, value: impl FnOnce() -> Value, text: &str) -> Outcome {
    if json {
        return line(&value().to_string());
    }
    line(text)
}
