//! One run of the benchmark: its options, the programs, and a directory for data.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::options::Scale;
use crate::progress::Progress;

/// The environment of all scenarios.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The durations and sizes of this run.
    pub(crate) scale: Scale,
    /// The progress bar.
    pub(crate) progress: Progress,
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
        Ok(Self {
            scale,
            progress: Progress::new(),
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
