//! How results are printed: JSON for scripts, lines, and elsewhere tables.

use std::io::{self, Write};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

/// How long standard error is waited for: it may be a pipe that nobody reads.
const STALLED: Duration = Duration::from_secs(1);

/// Prints one line about what went wrong to standard error.
pub(super) fn error(message: &str) {
    let line = format!("animal-store: {}\n", message.replace('\n', " "));
    let (printed, done) = mpsc::channel();
    let print = move || {
        let _ = io::stderr().write_all(line.as_bytes());
        let _ = printed.send(());
    };
    if std::thread::Builder::new().spawn(print).is_ok() {
        let _ = done.recv_timeout(STALLED);
    }
}

/// Prints a value as one line of JSON.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// Prints one line to standard output.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}
