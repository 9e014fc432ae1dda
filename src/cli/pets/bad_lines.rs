//! The lines of a file that cannot be imported: the first of them ends the import, or all are left out and reported.

use indicatif::ProgressBar;

use super::super::outcome::{Failure, Outcome};
use super::super::print;
use super::reader::NumberedRow;
use crate::store::{ImportConflict, ImportRow};

/// How many bad lines are printed without --verbose.
const MAX_PRINTED_LINES: u64 = 20;

/// The beginning of the message of an import that fails for any other reason than a bad line.
pub(super) fn cannot_import(name: &str) -> String {
    format!("cannot import {name}")
}

/// Lines that cannot be imported.
pub(super) struct BadLines<'a> {
    pub(super) name: &'a str,
    pub(super) bar: &'a ProgressBar,
    skip: bool,
    verbose: bool,
    count: u64,
    /// The first one, if bad lines are not left out.
    first: Option<Failure>,
}

impl<'a> BadLines<'a> {
    pub(super) fn new(name: &'a str, bar: &'a ProgressBar, skip: bool, verbose: bool) -> Self {
        Self {
            name,
            bar,
            skip,
            verbose,
            count: 0,
            first: None,
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the good rows, and reports the others.
    pub(super) fn good_rows(&mut self, rows: Vec<NumberedRow>) -> Vec<ImportRow> {
        let mut good = Vec::with_capacity(rows.len());
        for (line, row) in rows {
            match row {
                Ok(row) => good.push(ImportRow { line, row }),
                Err(problem) => self.report(line, &problem),
            }
        }
        good
    }

    pub(super) fn conflict(&mut self, conflict: ImportConflict) {
        self.report(conflict.line, &conflict.to_string());
    }

    fn report(&mut self, line: u64, problem: &str) {
        self.count += 1;
        if !self.skip {
            let name = self.name;
            self.first.get_or_insert_with(|| {
                Failure::Failed(format!(
                    "{name}, line {line}: {problem}: nothing was imported; --skip-bad leaves out such lines"
                ))
            });
        } else if self.verbose || self.count <= MAX_PRINTED_LINES {
            self.notice(&format!("line {line}: {problem}"));
        }
    }

    /// Fails if there is a bad line that is not left out.
    pub(super) fn check(&mut self) -> Outcome {
        self.first.take().map_or(Ok(()), Err)
    }

    pub(super) fn print_rest(&self) {
        if !self.verbose && self.count > MAX_PRINTED_LINES {
            let rest = print::counted(self.count - MAX_PRINTED_LINES, "more bad line");
            self.notice(&format!("{rest}: use --verbose to see them"));
        }
    }

    /// Prints a notice above the bar.
    fn notice(&self, text: &str) {
        self.bar.suspend(|| print::notice(text));
    }
}
