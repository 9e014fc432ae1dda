//! The options, the clock and the runtime of commands on the data.

use anyhow::Context;

use super::outcome::{Failure, Outcome};
use crate::clock::Clock;
use crate::config::DatabaseOptions;
use crate::store::{Database, Mode, Store};

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
    /// The store, for a command that only reads: nothing is created or migrated.
    pub(super) async fn open_to_read(&self, clock: &Clock) -> Result<Store, Failure> {
        self.open_and_correct(Mode::ReadOnly, clock).await
    }

    /// The store, which must exist in the format of this version.
    pub(super) async fn open(&self, clock: &Clock) -> Result<Store, Failure> {
        self.open_and_correct(Mode::ReadWrite, clock).await
    }

    /// Opens the store, and corrects the clock by the reference clock.
    async fn open_and_correct(&self, mode: Mode, clock: &Clock) -> Result<Store, Failure> {
        let store = self.open_as(mode).await?;
        let corrected = store.correct(clock).await;
        corrected.context("cannot read the database's clock")?;
        Ok(store)
    }

    /// The store in this mode.
    pub(super) async fn open_as(&self, mode: Mode) -> Result<Store, Failure> {
        Ok(Store::open_for_command(&self.database.database, mode, print_wait).await?)
    }

    /// The database.
    pub(super) fn database(&self) -> &Database {
        &self.database.database
    }
}

/// Prints why the command waits.
fn print_wait() {
    eprintln!(
        "animal-store: waiting up to 30 s for the database lock, which another process holds"
    );
}

/// Runs a command with a clock, which is corrected when the store is open.
pub(super) fn run(command: impl AsyncFnOnce(&Clock) -> Outcome) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(command(&Clock::system()))
}
