//! Presentation of the results: tables for a terminal, and a report with plots.

mod goals;
mod markdown;
mod number;
mod plot;
mod plots;
mod tables;

use std::path::Path;

use anyhow::{Context, Result};

use crate::results::Results;

/// A table, independent of its format.
struct Table {
    title: &'static str,
    /// The text above the table.
    note: String,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// The tables as text.
pub(crate) fn text(results: &Results) -> String {
    let mut text = String::new();
    for table in goals::table(results)
        .into_iter()
        .chain(tables::all(results))
    {
        let mut shown = comfy_table::Table::new();
        shown.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
        shown.set_header(table.head);
        shown.add_rows(table.rows);
        text.push_str(&format!("\n{}\n{shown}\n", table.title));
    }
    text
}

/// Writes the report, and its plots to a directory next to it.
pub(crate) fn write(results: &Results, file: &Path) -> Result<()> {
    let name = file
        .file_stem()
        .and_then(|name| name.to_str())
        .context("the report has no file name")?;
    let folder = file.with_extension("");
    let plots = plots::all(results);
    if !plots.is_empty() {
        std::fs::create_dir_all(&folder)?;
    }
    for plot in &plots {
        std::fs::write(folder.join(plot.file), &plot.svg)?;
    }
    let before = std::fs::read_to_string(file).unwrap_or_default();
    std::fs::write(file, markdown::report(results, &plots, name, &before))
        .with_context(|| format!("cannot write {}", file.display()))
}
