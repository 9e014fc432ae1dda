//! How results are printed: JSON for scripts, lines, and elsewhere tables.

use std::io::{self, Write};

use anyhow::Context;
use serde::Serialize;

/// Prints a value as one line of JSON.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// Prints one line to standard output.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}
