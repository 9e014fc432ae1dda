//! The progress bar of a command that takes long: on standard error, and only if that is a terminal.

use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::interval;

use super::signals::Signals;
use crate::store::BackupProgress;

/// The interval at which the bar is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

/// Done, of all, the rate and the remaining time.
const BYTES: &str =
    "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// A bar of bytes, which disappears when it is dropped.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn of_bytes(what: &'static str) -> Self {
        // Without a terminal indicatif draws nothing.
        let bar = ProgressBar::new(0).with_message(what);
        // A template that cannot be parsed leaves the default style.
        Self(match ProgressStyle::with_template(BYTES) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    pub(super) fn set(&self, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
    }
}

/// Shows the progress of work on another thread until it ends. A signal interrupts it; its name is returned.
pub(super) async fn watch<T>(
    bar: &Progress,
    progress: &BackupProgress,
    mut work: JoinHandle<T>,
) -> anyhow::Result<(T, Option<&'static str>)> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let mut redraw = interval(REDRAW);
    let mut stopped_by = None;
    loop {
        tokio::select! {
            done = &mut work => return Ok((done.context("a thread has panicked")?, stopped_by)),
            name = signals.first(), if stopped_by.is_none() => stopped_by = Some(name),
            _ = redraw.tick() => {
                if let Some((done, all)) = progress.bytes() {
                    bar.set(done, all);
                }
                if stopped_by.is_some() {
                    progress.interrupt();
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
