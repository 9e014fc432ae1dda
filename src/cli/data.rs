//! What every command on the data has in common: where it is, how results are printed, and what time it is.

use anyhow::Context;

use super::{Failure, Outcome};
use crate::clock::{Clock, Timestamp};
use crate::config::DatabaseOptions;
use crate::store::Store;
use crate::store::sqlite::Mode;

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
    pub(super) async fn open(&self) -> Result<Store, Failure> {
        self.open_as(Mode::MustExist).await
    }

    /// The store, which is created if it is not there.
    pub(super) async fn open_or_create(&self) -> Result<Store, Failure> {
        self.open_as(Mode::CreateIfMissing).await
    }

    async fn open_as(&self, mode: Mode) -> Result<Store, Failure> {
        // One command writes one thing.
        Ok(Store::open(&self.database.database, mode, 1).await?)
    }
}

/// Runs a command, and tells it what time it is.
pub(super) fn run(command: impl AsyncFnOnce(Timestamp) -> Outcome) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(command(Clock::system().now()))
}
