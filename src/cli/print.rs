//! Output of commands as JSON or lines.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

/// The context of a failed write to standard output.
pub(super) const CANNOT: &str = "cannot write to standard output";

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

/// Prints a value as one line of JSON.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// A JSON array on one line, printed as its elements come.
pub(super) struct Array {
    out: BufWriter<io::Stdout>,
    is_empty: bool,
}

impl Array {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut out = BufWriter::new(io::stdout());
        out.write_all(b"[").context(CANNOT)?;
        Ok(Self {
            out,
            is_empty: true,
        })
    }

    pub(super) fn add(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.write_all(b",").context(CANNOT)?;
        }
        serde_json::to_writer(&mut self.out, value).context(CANNOT)
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.out.write_all(b"]\n").context(CANNOT)?;
        self.out.flush().context(CANNOT)
    }
}

/// Prints one line to standard output.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context(CANNOT)
}
