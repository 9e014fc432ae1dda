//! Lists that are printed as their rows are read, so that a million of them need no more memory than a few.

use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Context;
use futures_util::{StreamExt, TryStreamExt};
use serde_json::Value;

use super::outcome::Outcome;
use super::print::write_failed;
use super::table::{self, Column};
use crate::store::RowStream;

/// The maximum number of rows in a table: all of them must be in memory to compute the widths of columns. A longer list is printed as
/// several tables.
const ROWS_PER_TABLE: usize = 1_000;

/// Prints all rows of a stream: as a JSON array, as tables on a terminal, or as tab-separated lines. `failure` is the message of a
/// failed read.
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
        let mut is_first = true;
        loop {
            let rows = stream.by_ref().take(ROWS_PER_TABLE);
            let rows = rows.map_ok(|row| to_row(&row)).try_collect::<Vec<_>>();
            let rows = rows.await.context(failure)?;
            // An empty list is a table of titles.
            if rows.is_empty() && !is_first {
                break;
            }
            is_first = false;
            writeln!(out, "{}", table::layout(columns, rows)).map_err(write_failed)?;
        }
    } else {
        writeln!(out, "{}", columns.map(Column::title).join("\t")).map_err(write_failed)?;
        while let Some(row) = stream.try_next().await.context(failure)? {
            writeln!(out, "{}", table::tab_separated(to_row(&row))).map_err(write_failed)?;
        }
    }
    out.flush().map_err(write_failed)
}
