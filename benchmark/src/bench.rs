//! One run of the benchmark: its options, the programs, and a directory for data.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempDir;

use crate::options::Scale;

/// The environment of all scenarios.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The durations and sizes of this run.
    pub(crate) scale: Scale,
    /// A progress bar on standard error, if that is a terminal. Each scenario adds its steps.
    pub(crate) progress: ProgressBar,
    programs: PathBuf,
    root: TempDir,
}

impl Bench {
    pub(crate) fn new(scale: Scale) -> Result<Self> {
        let program = std::env::current_exe()?;
        let programs = program
            .parent()
            .context("the program has no parent directory")?;
        // Next to the programs: a directory for temporary files may be in memory, where commits are cheap.
        let root = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(programs)?;
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}")?;
        let progress = ProgressBar::new(0).with_style(style);
        progress.enable_steady_tick(Duration::from_millis(500));
        Ok(Self {
            scale,
            progress,
            programs: programs.to_owned(),
            root,
        })
    }

    /// A program that was built together with this one.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// A directory with installed tools: `target/NAME`.
    pub(crate) fn installed(&self, name: &str) -> PathBuf {
        self.programs.parent().unwrap_or(Path::new(".")).join(name)
    }

    /// A new directory, deleted when dropped.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::tempdir_in(&self.root)?)
    }
}
