//! Tables that fit the terminal: if necessary columns become shorter, then fewer.

use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Context;
use comfy_table::{ContentArrangement, Table, presets};
use unicode_width::UnicodeWidthStr;

use super::print::CANNOT;

/// The width of a column beyond its content: a space on either side, and a border.
const FRAME: usize = 3;

/// The minimum width of a text that is cut.
const SHORTEST_TEXT: usize = 12;

/// The width if the terminal's is unknown.
const DEFAULT_WIDTH: u16 = 80;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    title: &'static str,
    short_title: &'static str,
    content: Content,
    /// The column with the highest number is left out first; 0 is never left out.
    leave_out: u8,
}

/// How a value can be shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Not at all.
    Whole,
    /// By cutting it.
    Text,
    /// By keeping only the date of a time.
    Time,
}

/// A column with this title, always shown, whole.
pub(super) const fn column(title: &'static str) -> Column {
    Column {
        title,
        short_title: title,
        content: Content::Whole,
        leave_out: 0,
    }
}

impl Column {
    /// A column with a shorter title for narrow terminals.
    pub(super) const fn or(self, short_title: &'static str) -> Self {
        Self {
            short_title,
            ..self
        }
    }

    /// A column of texts that may be cut.
    pub(super) const fn text(self) -> Self {
        Self {
            content: Content::Text,
            ..self
        }
    }

    /// A column of times that may be shortened to their dates.
    pub(super) const fn time(self) -> Self {
        Self {
            content: Content::Time,
            ..self
        }
    }

    /// A column that is left out before those with a lower number.
    pub(super) const fn leave_out(self, leave_out: u8) -> Self {
        Self { leave_out, ..self }
    }
}

/// Prints rows under their titles: a table on a terminal, tab-separated lines elsewhere.
pub(super) fn table<const N: usize>(
    columns: [Column; N],
    rows: Vec<[String; N]>,
) -> anyhow::Result<()> {
    let mut shown = Rows::new(columns)?;
    rows.into_iter().try_for_each(|row| shown.add(row))?;
    shown.finish()
}

/// Rows under their titles. Lines are printed at once; a table needs all of them for its widths.
pub(super) struct Rows<const N: usize> {
    columns: [Column; N],
    waiting: Vec<[String; N]>,
    out: BufWriter<io::Stdout>,
}

impl<const N: usize> Rows<N> {
    pub(super) fn new(columns: [Column; N]) -> anyhow::Result<Self> {
        let mut rows = Self {
            columns,
            waiting: Vec::new(),
            out: BufWriter::new(io::stdout()),
        };
        if !io::stdout().is_terminal() {
            rows.line(columns.map(|column| column.title).join("\t"))?;
        }
        Ok(rows)
    }

    pub(super) fn add(&mut self, row: [String; N]) -> anyhow::Result<()> {
        if !io::stdout().is_terminal() {
            return self.line(row.join("\t"));
        }
        self.waiting.push(row);
        Ok(())
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        if io::stdout().is_terminal() {
            let rows = std::mem::take(&mut self.waiting);
            let table = laid_out(self.columns, rows);
            self.line(table)?;
        }
        self.out.flush().context(CANNOT)
    }

    fn line(&mut self, line: String) -> anyhow::Result<()> {
        writeln!(self.out, "{line}").context(CANNOT)
    }
}

/// A table that fits the terminal.
fn laid_out<const N: usize>(columns: [Column; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    let width = table
        .width()
        .filter(|width| *width > 0)
        .unwrap_or(DEFAULT_WIDTH);
    let rows = rows.into_iter().map(Vec::from).collect();
    let (titles, rows) = fit(columns.into(), rows, width.into());
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
    if wanted(&columns, &rows) <= width {
        return (titles(&columns), rows);
    }
    for (place, column) in columns.iter_mut().enumerate() {
        column.title = column.short_title;
        if column.content == Content::Time {
            rows.iter_mut().for_each(|row| keep_date(&mut row[place]));
        }
    }
    while narrowest(&columns, &rows) > width {
        let leave_out = columns.iter().map(|column| column.leave_out);
        let Some((place, _)) = leave_out
            .enumerate()
            .filter(|(_, number)| *number > 0)
            .max_by_key(|(_, number)| *number)
        else {
            break;
        };
        columns.remove(place);
        rows.iter_mut().for_each(|row| drop(row.remove(place)));
    }
    // Texts share the remaining width.
    let mut room = width.saturating_sub(narrowest(&columns, &rows));
    for (place, column) in columns.iter().enumerate() {
        if column.content == Content::Text {
            let longest = content(column, &rows, place);
            let most = longest.min(SHORTEST_TEXT + room);
            room -= most.saturating_sub(SHORTEST_TEXT);
            rows.iter_mut().for_each(|row| cut(&mut row[place], most));
        }
    }
    (titles(&columns), rows)
}

/// The current width of the table.
fn wanted(columns: &[Column], rows: &[Vec<String>]) -> usize {
    widths(columns, rows, usize::MAX)
}

/// Its minimum width, with every text cut.
fn narrowest(columns: &[Column], rows: &[Vec<String>]) -> usize {
    widths(columns, rows, SHORTEST_TEXT)
}

fn widths(columns: &[Column], rows: &[Vec<String>], text: usize) -> usize {
    let width = |(place, column): (usize, &Column)| match column.content {
        Content::Text => content(column, rows, place).min(text),
        Content::Whole | Content::Time => content(column, rows, place),
    };
    let widths = columns.iter().enumerate().map(width);
    widths.map(|width| width + FRAME).sum::<usize>() + 1
}

fn content(column: &Column, rows: &[Vec<String>], place: usize) -> usize {
    let values = rows.iter().map(|row| row[place].width());
    values.max().unwrap_or(0).max(column.title.width())
}

fn keep_date(text: &mut String) {
    if let Some(end) = text.find('T') {
        text.truncate(end);
    }
}

fn cut(text: &mut String, most: usize) {
    if text.width() <= most {
        return;
    }
    while text.width() >= most && text.pop().is_some() {}
    text.push('…');
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        column("id"),
        column("name").text(),
        column("per minute").or("/min").leave_out(1),
        column("created").time().leave_out(2),
    ];

    fn fitted(width: usize, name: &str) -> (Vec<&'static str>, Vec<String>) {
        let row = ["7", name, "1000000000", "2026-11-15T08:00:00Z"].map(str::to_owned);
        let (titles, mut rows) = fit(COLUMNS.into(), vec![row.into()], width);
        let fits = wanted(
            &titles.iter().map(|title| column(title)).collect::<Vec<_>>(),
            &rows,
        );
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
    fn a_text_is_cut_by_what_is_seen_of_it() {
        let (_, row) = fitted(24, &"犬".repeat(50));
        assert_eq!(row[1], format!("{}…", "犬".repeat(7)));
    }
}
