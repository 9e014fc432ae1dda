//! The progress bar of a command that takes long: on standard error, and only if that is a terminal.

use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::interval;

use super::print;
use super::signals::Signals;
use crate::store::BackupProgress;

/// The interval at which the bar is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

/// Done, of all, the rate and the remaining time.
pub(super) const BYTES: &str =
    "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// The same if it is unknown how many there are.
const BYTES_OF_STREAM: &str = "{msg} {binary_bytes}, {binary_bytes_per_sec}";

pub(super) const ANIMALS: &str =
    "{msg} {wide_bar} {human_pos} of {human_len} animals, {per_sec:0}, {eta} left";

pub(super) const ROWS: &str =
    "{msg} {wide_bar} {human_pos} of {human_len} rows, {per_sec:0}, {eta} left";

/// A bar, which disappears when it is dropped.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar with one of the templates above.
    pub(super) fn new(action: &'static str, template: &str) -> Self {
        // Without a terminal indicatif draws nothing.
        let bar = ProgressBar::new(0).with_message(action);
        // A template that cannot be parsed leaves the default style.
        Self(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// A bar of the bytes of a file, or of a stream whose length is unknown.
    pub(super) fn of_file(action: &'static str, length: Option<u64>) -> Self {
        let Some(length) = length else {
            return Self::new(action, BYTES_OF_STREAM);
        };
        let bar = Self::new(action, BYTES);
        bar.0.set_length(length);
        bar
    }

    /// A bar that is not shown.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Whether anybody sees it.
    pub(super) fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    pub(super) fn set(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    pub(super) fn set_done(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Prints a notice above the bar.
    pub(super) fn notice(&self, text: &str) {
        self.0.suspend(|| print::notice(text));
    }
}

/// Shows the progress of work on another thread until it ends. A signal interrupts it; its name is returned, even if the work had just
/// ended.
pub(super) async fn watch<T>(
    bar: &Bar,
    progress: &BackupProgress,
    signals: &Signals,
    mut work: JoinHandle<T>,
) -> anyhow::Result<(T, Option<&'static str>)> {
    let mut redraw = interval(REDRAW);
    loop {
        tokio::select! {
            done = &mut work => {
                return Ok((done.context("a thread has panicked")?, signals.received()));
            }
            _ = redraw.tick() => {
                if let Some((done, all)) = progress.bytes() {
                    bar.set(done, all);
                }
                if signals.received().is_some() {
                    progress.interrupt();
                }
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
