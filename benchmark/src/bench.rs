//! One run: what was asked for, where the programs are, where data may be put.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::options::Pace;
use crate::progress::Progress;

/// What every row needs.
#[derive(Debug)]
pub(crate) struct Bench {
    /// How long everything takes.
    pub(crate) pace: Pace,
    /// The bar.
    pub(crate) progress: Progress,
    programs: PathBuf,
    root: TempDir,
}

impl Bench {
    pub(crate) fn new(pace: Pace) -> Result<Self> {
        let program = std::env::current_exe()?;
        let programs = program.parent().context("the program is in no folder")?;
        // Beside the programs, and not where temporary files are: that may be memory, which makes every commit cheap.
        let root = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(programs)?;
        Ok(Self {
            pace,
            progress: Progress::new(),
            programs: programs.to_owned(),
            root,
        })
    }

    /// A program that was built along with this one.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Where what was installed for a run is: `target/NAME`.
    pub(crate) fn installed(&self, name: &str) -> PathBuf {
        self.programs.parent().unwrap_or(Path::new(".")).join(name)
    }

    /// A new folder. It goes when it is dropped.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::tempdir_in(&self.root)?)
    }
}
