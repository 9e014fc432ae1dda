//! Tables that fit the terminal: if necessary, columns become shorter, then fewer.

use std::io::{self, IsTerminal};

use comfy_table::{ContentArrangement, Table, presets};
use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthStr;

use super::print::escaped;

/// The width of a column beyond its content: a space on either side, and a border.
const COLUMN_PADDING: usize = 3;

/// The minimum width of a truncated text.
const MIN_TEXT_WIDTH: usize = 12;

/// The width if the terminal's is unknown.
const DEFAULT_WIDTH: u16 = 80;

#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    title: &'static str,
    short_title: &'static str,
    content: Content,
    /// Columns with the highest rank are dropped first; those with rank 0 are never dropped.
    drop_rank: u8,
}

/// How the values of a column can be shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Not at all.
    Fixed,
    /// By truncation.
    Text,
    /// By keeping only the date of a time.
    Time,
}

/// A column that is always shown, with values that are not shortened.
pub(super) const fn column(title: &'static str) -> Column {
    Column {
        title,
        short_title: title,
        content: Content::Fixed,
        drop_rank: 0,
    }
}

impl Column {
    pub(super) const fn title(self) -> &'static str {
        self.title
    }

    /// With a shorter title for narrow terminals.
    pub(super) const fn short(mut self, title: &'static str) -> Self {
        self.short_title = title;
        self
    }

    /// With texts that may be truncated.
    pub(super) const fn text(mut self) -> Self {
        self.content = Content::Text;
        self
    }

    /// With times that may be shortened to their dates.
    pub(super) const fn time(mut self) -> Self {
        self.content = Content::Time;
        self
    }

    /// May be dropped, before columns of a lower rank.
    pub(super) const fn optional(mut self, drop_rank: u8) -> Self {
        self.drop_rank = drop_rank;
        self
    }
}

/// Rows under their titles: a table on a terminal, tab-separated lines elsewhere.
pub(super) fn text<const N: usize>(columns: [Column; N], rows: Vec<[String; N]>) -> String {
    if io::stdout().is_terminal() {
        return layout(columns, rows);
    }
    let titles = columns.map(Column::title).join("\t");
    let lines = rows.into_iter().map(tab_separated);
    std::iter::once(titles)
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n")
}

pub(super) fn tab_separated<const N: usize>(row: [String; N]) -> String {
    row.map(|value| escaped(&value)).join("\t")
}

/// A table that fits the terminal.
pub(super) fn layout<const N: usize>(columns: [Column; N], rows: Vec<[String; N]>) -> String {
    let width = tcgetwinsize(io::stdout()).map(|size| size.ws_col);
    let width = width.ok().filter(|width| *width > 0);
    let width = width.unwrap_or(DEFAULT_WIDTH);
    let escape = |row: [String; N]| row.map(|value| escaped(&value)).into();
    let rows = rows.into_iter().map(escape).collect();
    let (titles, rows) = fit(columns.into(), rows, width.into());
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        // Columns that still do not fit are wrapped.
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(titles)
        .add_rows(rows);
    table.to_string()
}

/// The titles and values that fit into this width.
fn fit(
    mut columns: Vec<Column>,
    mut rows: Vec<Vec<String>>,
    width: usize,
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let titles = |columns: &[Column]| columns.iter().map(|column| column.title).collect();
    if table_width(&columns, &rows, usize::MAX) <= width {
        return (titles(&columns), rows);
    }
    for (index, column) in columns.iter_mut().enumerate() {
        column.title = column.short_title;
        if column.content == Content::Time {
            rows.iter_mut().for_each(|row| keep_date(&mut row[index]));
        }
    }
    while table_width(&columns, &rows, MIN_TEXT_WIDTH) > width {
        let ranks = columns.iter().map(|column| column.drop_rank).enumerate();
        let Some((index, 1..)) = ranks.max_by_key(|(_, rank)| *rank) else {
            break;
        };
        columns.remove(index);
        rows.iter_mut().for_each(|row| drop(row.remove(index)));
    }
    // Texts share the remaining width.
    let mut spare = width.saturating_sub(table_width(&columns, &rows, MIN_TEXT_WIDTH));
    for (index, column) in columns.iter().enumerate() {
        if column.content == Content::Text {
            let longest = column_width(column, &rows, index);
            let max = longest.min(MIN_TEXT_WIDTH + spare);
            spare -= max.saturating_sub(MIN_TEXT_WIDTH);
            rows.iter_mut()
                .for_each(|row| truncate(&mut row[index], max));
        }
    }
    (titles(&columns), rows)
}

/// The width of the table with texts of at most this width.
fn table_width(columns: &[Column], rows: &[Vec<String>], max_text: usize) -> usize {
    let width = |(index, column): (usize, &Column)| match column.content {
        Content::Text => column_width(column, rows, index).min(max_text),
        Content::Fixed | Content::Time => column_width(column, rows, index),
    };
    let widths = columns.iter().enumerate().map(width);
    widths.map(|width| width + COLUMN_PADDING).sum::<usize>() + 1
}

fn column_width(column: &Column, rows: &[Vec<String>], index: usize) -> usize {
    let values = rows.iter().map(|row| row[index].width());
    values.max().unwrap_or(0).max(column.title.width())
}

fn keep_date(text: &mut String) {
    if let Some(end) = text.find('T') {
        text.truncate(end);
    }
}

fn truncate(text: &mut String, max: usize) {
    if text.width() <= max {
        return;
    }
    while text.width() >= max && text.pop().is_some() {}
    text.push('…');
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        column("id"),
        column("name").text(),
        column("per minute").short("/min").optional(1),
        column("created").time().optional(2),
    ];

    fn fitted(width: usize, name: &str) -> (Vec<&'static str>, Vec<String>) {
        let row = ["7", name, "1000000000", "2026-11-15T08:00:00Z"].map(str::to_owned);
        let (titles, mut rows) = fit(COLUMNS.into(), vec![row.into()], width);
        let columns: Vec<_> = titles.iter().map(|title| column(title)).collect();
        let fits = table_width(&columns, &rows, usize::MAX);
        assert!(fits <= width, "{fits} > {width}: {titles:?} {rows:?}");
        (titles, rows.remove(0))
    }

    #[test]
    fn what_fits_is_shown_whole() {
        let (titles, row) = fitted(65, "twenty characters ok");
        assert_eq!(titles, ["id", "name", "per minute", "created"]);
        assert_eq!(
            row,
            [
                "7",
                "twenty characters ok",
                "1000000000",
                "2026-11-15T08:00:00Z"
            ]
        );
    }

    #[test]
    fn first_columns_become_shorter_then_fewer() {
        let name = "twenty characters ok";
        let (titles, row) = fitted(56, name);
        assert_eq!(titles, ["id", "name", "/min", "created"]);
        assert_eq!(row, ["7", name, "1000000000", "2026-11-15"]);
        assert_eq!(fitted(50, name).1[1], "twenty charact…");
        assert_eq!(fitted(46, name).0, ["id", "name", "/min"]);
        assert_eq!(fitted(30, name).0, ["id", "name"]);
    }

    #[test]
    fn a_text_is_truncated_by_its_width_on_screen() {
        let (_, row) = fitted(24, &"犬".repeat(50));
        assert_eq!(row[1], format!("{}…", "犬".repeat(7)));
    }
}
