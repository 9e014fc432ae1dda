//! `animal-store orders`: places, completes and cancels orders. Changes are visible on a running server within a second.

use anyhow::Context;
use clap::Subcommand;
use serde::Serialize;

use super::data::Common;
use super::list::list;
use super::outcome::Outcome;
use super::print::{self, Array};
use super::table::column;
use crate::clock::{Clock, Timestamp};
use crate::config::options;
use crate::order::action::ActionRejection;
use crate::order::{Order, OrderId, OrderState, QUANTITY};
use crate::pet::{PetId, PetStatus};
use crate::store::RowStream;

/// Place, complete, cancel and list orders.
#[derive(Debug, clap::Args)]
pub(super) struct Orders {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Place an order for an available animal, which becomes pending
    Place {
        /// The animal's ID
        #[arg(long, value_name = "ID", value_parser = options::id)]
        pet: i64,
        /// Ship date, or date and time, such as 2026-12-24T18:00:00Z
        #[arg(long, value_name = "DATE")]
        ship_date: Option<Timestamp>,
        #[command(flatten)]
        common: Common,
    },
    /// Complete an order; the animal becomes sold
    Complete {
        #[command(flatten)]
        order: OneOrder,
    },
    /// Cancel an open order; the animal becomes available again
    Cancel {
        #[command(flatten)]
        order: OneOrder,
    },
    /// List all orders, including cancelled ones
    List {
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, clap::Args)]
struct OneOrder {
    /// The order's ID
    #[arg(value_parser = options::id)]
    id: i64,
    #[command(flatten)]
    common: Common,
}

impl Orders {
    pub(super) fn run(self) -> Outcome {
        super::data::run(async |clock| self.command.run(clock).await)
    }
}

impl Command {
    async fn run(self, clock: &Clock) -> Outcome {
        match self {
            Self::Place {
                pet,
                ship_date,
                common,
            } => {
                let store = common.open(clock).await?;
                let placed = store.place_order(PetId(pet), ship_date, clock.now()).await;
                let placed = placed.context("cannot place the order")?;
                print_outcome(placed, &common, "placed", PetStatus::Pending)
            }
            Self::Complete { order } => {
                let store = order.common.open(clock).await?;
                let completed = store.complete_order(OrderId(order.id), clock.now()).await;
                let completed = completed.context("cannot complete the order")?;
                print_outcome(completed, &order.common, "complete", PetStatus::Sold)
            }
            Self::Cancel { order } => {
                let store = order.common.open(clock).await?;
                let cancelled = store.cancel_order(OrderId(order.id), clock.now()).await;
                let cancelled = cancelled.context("cannot cancel the order")?;
                print_outcome(cancelled, &order.common, "cancelled", PetStatus::Available)
            }
            Self::List { common } => {
                let store = common.open_to_read(clock).await?;
                show(store.orders(), common.json).await
            }
        }
    }
}

/// Prints the outcome of an action: the state of the order and its animal.
fn print_outcome(
    outcome: Result<Order, ActionRejection>,
    common: &Common,
    done: &str,
    status: PetStatus,
) -> Outcome {
    let order = outcome.map_err(anyhow::Error::from)?;
    if common.json {
        return Ok(print::json(&OrderReport::from(&order))?);
    }
    let line = format!(
        "order {} is {done}: animal {} is {}",
        order.id,
        order.pet,
        status.word()
    );
    Ok(print::line(&line)?)
}

/// An order in JSON: as the API shows it, and its state.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OrderReport {
    id: i64,
    pet_id: i64,
    quantity: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    ship_date: Option<String>,
    complete: bool,
    state: &'static str,
}

impl From<&Order> for OrderReport {
    fn from(order: &Order) -> Self {
        Self {
            id: order.id.0,
            pet_id: order.pet.0,
            quantity: QUANTITY,
            ship_date: order.ship_date.map(|date| date.to_string()),
            complete: order.state == OrderState::Complete,
            state: order.state.word(),
        }
    }
}

async fn show(orders: RowStream<'_, Order>, json: bool) -> Outcome {
    let element = |array: &mut Array, order: &Order| array.add(&OrderReport::from(order));
    let row = |order: Order| {
        let report = OrderReport::from(&order);
        [
            report.id.to_string(),
            report.pet_id.to_string(),
            report.ship_date.unwrap_or_else(|| "unknown".into()),
            report.state.to_owned(),
        ]
    };
    let columns = [
        column("id"),
        column("animal"),
        column("ship date").time(),
        column("state"),
    ];
    let failure = "cannot read the orders";
    Ok(list(orders, failure, json, element, columns, row).await?)
}
