//! `animal-store pets`: changes animals. Changes are visible on a running server within a second.

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;

use super::database::CommandOptions;
use super::outcome::Outcome;
use super::print;
use crate::clock::Clock;
use crate::config::options;
use crate::pet::{PetId, PetStatus};
use crate::store::Mode;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
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
        options: CommandOptions,
    },
}

impl Command {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        let Self::SetStatus {
            id,
            status,
            force,
            options,
        } = self;
        let (store, now) = options.open(Mode::ReadWrite, clock).await?;
        let set = store.set_status(PetId(id), status, force, now).await;
        let set = set
            .context("cannot set the status")?
            .map_err(anyhow::Error::from)?;
        let (status, before) = (status.word(), set.before.word());
        let cancelled = set.order.map(|order| order.id.0);
        let report =
            || json!({"id": id, "status": status, "before": before, "cancelledOrder": cancelled});
        let mut text = format!("animal {id} is {status} (was {before})");
        if let Some(order) = cancelled {
            text.push_str(&format!("; order {order} is cancelled"));
        }
        print::result(options.json, report, &text)
    }
}
