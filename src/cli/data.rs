//! What every command on the data has in common: where it is, how results are printed, and what time it is.

use anyhow::Context;

use super::{Failure, Outcome};
use crate::clock::{Clock, Timestamp};
use crate::config::DatabaseOptions;
use crate::store::Store;
use crate::store::sqlite::{Mode, Sqlite};

/// The options of a command on the data.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl Common {
    /// The store, which must be there.
    pub(super) fn open(&self) -> Result<Store, Failure> {
        self.open_as(Mode::MustExist)
    }

    /// The store, which is created if it is not there.
    pub(super) fn open_or_create(&self) -> Result<Store, Failure> {
        self.open_as(Mode::CreateIfMissing)
    }

    fn open_as(&self, mode: Mode) -> Result<Store, Failure> {
        // One command writes one thing.
        let engine =
            Sqlite::open(&self.database.database.0, mode, 1).map_err(anyhow::Error::from)?;
        Ok(Store::new(engine))
    }
}

/// Runs a command, and tells it what time it is.
pub(super) fn run(command: impl AsyncFnOnce(Timestamp) -> Outcome) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .context("cannot start")?;
    runtime.block_on(command(Clock::system().now()))
}
