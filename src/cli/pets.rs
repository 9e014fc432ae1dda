//! `animal-store pets`: changes animals. Changes are visible on a running server within a second.

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;

use super::data::Common;
use super::outcome::Outcome;
use super::print;
use crate::clock::Clock;
use crate::config::options;
use crate::pet::{PetId, PetStatus};

/// Change animals.
#[derive(Debug, clap::Args)]
pub(super) struct Pets {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set an animal's status
    SetStatus {
        /// The animal's ID
        #[arg(value_parser = options::id)]
        id: i64,
        /// New status
        status: PetStatus,
        /// Cancel the open order for the animal, if any
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
}

impl Pets {
    pub(super) fn run(self) -> Outcome {
        super::data::run(async |clock| self.command.run(clock).await)
    }
}

impl Command {
    async fn run(self, clock: &Clock) -> Outcome {
        let Self::SetStatus {
            id,
            status,
            force,
            common,
        } = self;
        let set = common
            .open(clock)
            .await?
            .set_status(PetId(id), status, force, clock.now())
            .await;
        let set = set
            .context("cannot set the status")?
            .map_err(anyhow::Error::from)?;
        let cancelled = set.order.map(|order| order.id.0);
        if common.json {
            let before = set.before.word();
            let report = json!({"id": id, "status": status.word(), "before": before, "withdrawnOrder": cancelled});
            return Ok(print::json(&report)?);
        }
        let mut line = format!(
            "animal {id} is {} (was {})",
            status.word(),
            set.before.word()
        );
        if let Some(order) = cancelled {
            line.push_str(&format!("; order {order} is cancelled"));
        }
        Ok(print::line(&line)?)
    }
}
