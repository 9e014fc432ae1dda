//! `animal-store pets`: lists, changes, removes, imports and exports animals. Changes are visible on a running server within a
//! second, on several nodes within five.

mod bad_lines;
mod export;
mod format;
mod gzip;
mod import;
mod reader;
mod row_source;
mod writer;
mod zstd;

use anyhow::Context;
use clap::Subcommand;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::database::CommandOptions;
use super::list::list;
use super::outcome::{Failure, Outcome};
use super::table::{Column, column};
use super::{confirm, print, table};
use crate::clock::Clock;
use crate::config::options;
use crate::order::action::ActionRejection;
use crate::pet::{Pet, PetId, PetStatus};
use crate::store::{Mode, Store};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List animals in ascending order of their IDs
    List {
        /// Only animals with this status
        #[arg(long)]
        status: Option<PetStatus>,
        /// At most this many
        #[arg(long, value_name = "N", value_parser = options::count)]
        limit: Option<usize>,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Show one animal
    Show(PetArgs),
    /// Set an animal's status
    SetStatus {
        #[command(flatten)]
        pet: PetArgs,
        /// New status
        status: PetStatus,
        /// Cancel the open order for the animal, if any; pending keeps it
        #[arg(long)]
        force: bool,
    },
    /// Remove an animal permanently; its orders stay
    Remove {
        #[command(flatten)]
        pet: PetArgs,
        /// Cancel the open order for the animal, if any
        #[arg(long)]
        force: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    Import(import::ImportCommand),
    Export(export::ExportCommand),
}

#[derive(Debug, clap::Args)]
pub(super) struct PetArgs {
    /// The animal's ID
    #[arg(value_parser = options::id)]
    id: i64,
    #[command(flatten)]
    options: CommandOptions,
}

const COLUMNS: [Column; 4] = [
    column("id"),
    column("name").text(),
    column("category"),
    column("status"),
];

impl Command {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        match self {
            Self::Import(import) => import.run(clock).await,
            Self::Export(export) => export.run(clock).await,
            Self::List {
                status,
                limit,
                options,
            } => {
                let (store, _) = options.open(Mode::ReadOnly, clock).await?;
                let pets = store.pets(status).take(limit.unwrap_or(usize::MAX));
                let failure = "cannot read the animals";
                let row = |pet: &Pet| row(&report(pet));
                let pets = pets.boxed_local();
                list(pets, failure, options.json, report, COLUMNS, row).await
            }
            Self::Show(PetArgs { id, options }) => {
                let (store, _) = options.open(Mode::ReadOnly, clock).await?;
                let pet = get(&store, PetId(id)).await?;
                let text = table::text(COLUMNS, vec![row(&pet)]);
                print::value(options.json, &pet, &text)
            }
            Self::SetStatus {
                pet: PetArgs { id, options },
                status,
                force,
            } => {
                let (store, now) = options.open(Mode::ReadWrite, clock).await?;
                let set = store.set_status(PetId(id), status, force, now).await;
                let set = set.context("cannot set the status")??;
                let (status, before) = (status.as_str(), set.before.as_str());
                let cancelled = set.order.map(|order| order.id.0);
                let report = json!({"id": id, "status": status, "before": before, "cancelledOrder": cancelled});
                let text = format!("animal {id} is {status} (was {before})");
                print::result(options.json, &report, &(text + &order_text(cancelled)))
            }
            Self::Remove {
                pet: PetArgs { id, options },
                force,
                yes,
            } => {
                let (store, _) = options.open(Mode::ReadWrite, clock).await?;
                let pet = get(&store, PetId(id)).await?;
                let [_, name, ..] = row(&pet);
                if !yes {
                    let order = if force {
                        ", and its open order, if any, will be cancelled"
                    } else {
                        ""
                    };
                    let question =
                        format!("animal {id} ({name}) will be removed permanently{order}");
                    confirm::confirm(question).await?;
                }
                // Read after the confirmation: an order that was placed meanwhile must not end before it was placed.
                let now = clock.now();
                let removed = store.remove_pet(PetId(id), force, now).await;
                let removed = removed.context("cannot remove the animal")??;
                let cancelled = removed.order.map(|order| order.id.0);
                let mut report = pet;
                report["cancelledOrder"] = cancelled.into();
                let text = format!("animal {id} ({name}) is removed");
                print::result(options.json, &report, &(text + &order_text(cancelled)))
            }
        }
    }
}

/// An animal in JSON, as the API shows it.
async fn get(store: &Store, id: PetId) -> Result<Value, Failure> {
    let failure = "cannot read the animal";
    let json = store.pet(id).await.context(failure)?;
    let json = json.ok_or(ActionRejection::UnknownPet(id))?;
    Ok(serde_json::from_slice(&json).context(failure)?)
}

fn order_text(cancelled: Option<i64>) -> String {
    cancelled.map_or_else(String::new, |order| format!("; order {order} is cancelled"))
}

fn report(pet: &Pet) -> Value {
    json!({"id": pet.id.0, "name": pet.name, "categoryId": pet.category_id, "status": pet.status.as_str()})
}

fn row(pet: &Value) -> [String; 4] {
    ["id", "name", "categoryId", "status"].map(|member| match &pet[member] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}
