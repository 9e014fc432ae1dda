//! Output of commands as JSON or lines.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use super::outcome::{Failure, Outcome};

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

/// Prints a notice to standard error. If that is full or closed, the command succeeds without it.
pub(super) fn notice(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The failure of a write to standard output.
pub(super) fn write_failed(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::Failed(format!("cannot write to standard output: {error}")),
    }
}

/// Prints these bytes to standard output.
pub(super) fn all(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(write_failed)
}

/// Seconds, rounded to three decimal places.
pub(super) fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// A count with its noun, in the singular or the plural.
pub(super) fn counted(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural}")
}

/// Prints the result of a command: as one line of JSON, or as `text`.
pub(super) fn result(json: bool, value: impl FnOnce() -> Value, text: &str) -> Outcome {
    match json {
        true => all(format!("{}\n", value()).as_bytes()),
        false => all(format!("{text}\n").as_bytes()),
    }
}
