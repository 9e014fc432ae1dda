//! Lists that are printed as their rows are read, so that a million of them need no more memory than a few, except
//! as a table on a terminal.

use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Context;
use futures_util::TryStreamExt;
use serde_json::Value;

use super::outcome::Outcome;
use super::print::write_failed;
use super::table::{self, Column};
use crate::store::RowStream;

/// Prints all rows of a stream: as a JSON array, as a table on a terminal, which needs all of them for its widths, or as tab-separated
/// lines. `failure` is the message of a failed read.
pub(super) async fn list<T, const N: usize>(
    mut stream: RowStream<'_, T>,
    failure: &'static str,
    json: bool,
    to_json: impl Fn(&T) -> Value,
    columns: [Column; N],
    to_row: impl Fn(&T) -> [String; N],
) -> Outcome {
    let mut out = BufWriter::new(io::stdout());
    if json {
        write!(out, "[").map_err(write_failed)?;
        let mut separator = "";
        while let Some(row) = stream.try_next().await.context(failure)? {
            write!(out, "{separator}{}", to_json(&row)).map_err(write_failed)?;
            separator = ",";
        }
        writeln!(out, "]").map_err(write_failed)?;
    } else if io::stdout().is_terminal() {
        let rows: Vec<T> = stream.try_collect().await.context(failure)?;
        let rows = rows.iter().map(to_row).collect();
        writeln!(out, "{}", table::layout(columns, rows)).map_err(write_failed)?;
    } else {
        writeln!(out, "{}", columns.map(Column::title).join("\t")).map_err(write_failed)?;
        while let Some(row) = stream.try_next().await.context(failure)? {
            writeln!(out, "{}", to_row(&row).join("\t")).map_err(write_failed)?;
        }
    }
    out.flush().map_err(write_failed)
}
