//! The progress bar of a command that takes long: on standard error, and only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

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

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
