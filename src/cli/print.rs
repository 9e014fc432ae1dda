//! How results are shown: a table on a terminal, tab-separated lines elsewhere, JSON for scripts.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use comfy_table::{Table, presets};
use serde::Serialize;

/// Prints a value as one line of JSON.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// Prints one line to standard output.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}

/// Prints rows under their titles.
pub(super) fn table<const N: usize>(
    titles: [&str; N],
    rows: Vec<[String; N]>,
) -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_header(titles)
            .add_rows(rows);
        return line(&table.to_string());
    }
    line(&titles.join("\t"))?;
    rows.iter().try_for_each(|row| line(&row.join("\t")))
}
