//! A progress bar on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress bar. Each scenario adds its steps.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self(bar)
    }

    /// Adds steps.
    pub(crate) fn expect(&self, steps: usize) {
        self.0.inc_length(steps as u64);
    }

    /// Shows the current step.
    pub(crate) fn show(&self, scenario: &str, what: &str) {
        self.0.set_message(format!("{scenario}: {what}"));
    }

    /// Marks one step as done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
