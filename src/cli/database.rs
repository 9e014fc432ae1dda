//! The options, the clock and the runtime of commands on a database.

use anyhow::Context;
use clap::Arg;

use super::outcome::{Failure, Outcome};
use super::print;
use crate::clock::{Clock, Timestamp};
use crate::config::DatabaseOptions;
use crate::store::{COMMAND_LOCK_TIMEOUT, Database, Mode, Store};

/// The options of commands on one database.
#[derive(Debug, clap::Args)]
pub(super) struct CommandOptions {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    database: DatabaseOptions,
}

impl CommandOptions {
    /// Opens the store, corrects the clock by the reference clock, and returns the time.
    pub(super) async fn open(
        &self,
        mode: Mode,
        clock: &Clock,
    ) -> Result<(Store, Timestamp), Failure> {
        let database = self.database.resolve()?;
        let store = Store::open_for_command(&database, mode, print_wait).await?;
        let corrected = store.correct(clock).await;
        corrected.context("cannot read the database's clock")?;
        Ok((store, clock.now()))
    }

    pub(super) fn database(&self) -> &Database {
        &self.database.database
    }
}

/// A command on an embedded database. Its help does not show the options of PostgreSQL, which it accepts because the configuration file
/// or the environment may set them.
pub(super) fn with_embedded_help(command: clap::Command) -> clap::Command {
    let hidden = |option: Arg| option.hide(true);
    command
        .mut_arg("database", |option| {
            option.help("Embedded database: sqlite:PATH")
        })
        .mut_arg("database_password_file", hidden)
        .mut_arg("ca_cert", hidden)
}

/// Prints why the command waits.
pub(super) fn print_wait() {
    let limit = COMMAND_LOCK_TIMEOUT.as_secs();
    print::notice(&format!(
        "animal-store: waiting up to {limit} s for the database lock, which another process holds"
    ));
}

/// Runs a command with a clock, which is corrected when the store is open.
pub(super) fn run(command: impl AsyncFnOnce(&Clock) -> Outcome) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let outcome = runtime.block_on(command(&Clock::system()));
    // The process exits even if a thread waits for a lock, or writes to standard output that nobody reads.
    runtime.shutdown_background();
    outcome
}
