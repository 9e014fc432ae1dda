//! The progress bar of a command that takes a long time: on standard error, and only if that is a terminal.

use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::interval;

use super::signals::Signals;
use crate::store::BackupProgress;

/// The interval at which the bar is redrawn.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Shows the bytes done, the total, the rate and the remaining time.
pub(super) const BYTES_TEMPLATE: &str =
    "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// The same if the total is unknown.
pub(super) const STREAM_TEMPLATE: &str = "{msg} {binary_bytes}, {binary_bytes_per_sec}";

pub(super) const PETS_TEMPLATE: &str =
    "{msg} {wide_bar} {human_pos} of {human_len} animals, {per_sec:0}, {eta} left";

pub(super) const PETS_WITHOUT_TOTAL_TEMPLATE: &str = "{msg} {human_pos} animals, {per_sec:0}";

pub(super) const ROWS_TEMPLATE: &str =
    "{msg} {wide_bar} {human_pos} of {human_len} rows, {per_sec:0}, {eta} left";

/// A bar with one of the templates above, which disappears when it is dropped.
pub(super) fn progress_bar(action: &'static str, template: &str) -> ProgressBar {
    // Without a terminal indicatif draws nothing.
    let bar = ProgressBar::new(0).with_message(action);
    set_template(&bar, template);
    bar
}

pub(super) fn set_template(bar: &ProgressBar, template: &str) {
    // One that cannot be parsed leaves the style as it is.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// Shows the progress of work on another thread until it ends. A signal interrupts it; its name is returned, even if the work had just
/// ended.
pub(super) async fn watch<T>(
    bar: &ProgressBar,
    progress: &BackupProgress,
    signals: &Signals,
    mut work: JoinHandle<T>,
) -> anyhow::Result<(T, Option<&'static str>)> {
    let mut redraw = interval(REDRAW_INTERVAL);
    loop {
        tokio::select! {
            done = &mut work => {
                return Ok((done.context("a thread has panicked")?, signals.received()));
            }
            _ = redraw.tick() => {
                if let Some((done, all)) = progress.bytes() {
                    bar.set_length(all);
                    bar.set_position(done);
                }
                if signals.received().is_some() {
                    progress.interrupt();
                }
            }
        }
    }
}
