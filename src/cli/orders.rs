//! `animal-store orders`: places, completes and cancels orders. Changes are visible on a running server within a second, on several
//! nodes within five.

use anyhow::Context;
use clap::Subcommand;

use super::database::CommandOptions;
use super::list::list;
use super::outcome::Outcome;
use super::print;
use super::table::column;
use crate::clock::{Clock, Timestamp};
use crate::config::options;
use crate::order::action::ActionRejection;
use crate::order::{Order, OrderId, OrderState};
use crate::pet::{PetId, PetStatus};
use crate::store::Mode;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Place an order for an available animal, which becomes pending
    Place {
        /// The animal's ID
        #[arg(long, value_name = "ID", value_parser = options::id)]
        pet: i64,
        /// Ship date, not in the past: a date (00:00 UTC), or a date and time such as 2030-12-24T18:00:00Z
        #[arg(long, value_name = "DATE")]
        ship_date: Option<Timestamp>,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Complete an order; the animal becomes sold
    Complete(OrderArgs),
    /// Cancel an open order; the animal becomes available again
    Cancel(OrderArgs),
    /// List orders, including cancelled ones
    List {
        /// Only orders in this state
        #[arg(long, alias = "status")]
        state: Option<OrderState>,
        #[command(flatten)]
        options: CommandOptions,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct OrderArgs {
    /// The order's ID
    #[arg(value_parser = options::id)]
    id: i64,
    #[command(flatten)]
    options: CommandOptions,
}

impl Command {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        match self {
            Self::Place {
                pet,
                ship_date,
                options,
            } => {
                let (store, now) = options.open(Mode::ReadWrite, clock).await?;
                let placed = store.place_order(PetId(pet), ship_date, now).await;
                let placed = placed.context("cannot place the order")?;
                print_outcome(placed, options.json, "placed", PetStatus::Pending)
            }
            Self::Complete(OrderArgs { id, options }) => {
                let (store, now) = options.open(Mode::ReadWrite, clock).await?;
                let completed = store.complete_order(OrderId(id), now).await;
                let completed = completed.context("cannot complete the order")?;
                print_outcome(completed, options.json, "complete", PetStatus::Sold)
            }
            Self::Cancel(OrderArgs { id, options }) => {
                let (store, now) = options.open(Mode::ReadWrite, clock).await?;
                let cancelled = store.cancel_order(OrderId(id), now).await;
                let cancelled = cancelled.context("cannot cancel the order")?;
                print_outcome(cancelled, options.json, "cancelled", PetStatus::Available)
            }
            Self::List { state, options } => {
                let (store, _) = options.open(Mode::ReadOnly, clock).await?;
                let columns = [
                    column("id"),
                    column("animal"),
                    column("ship date").time(),
                    column("state"),
                ];
                let failure = "cannot read the orders";
                let orders = store.orders(state);
                list(orders, failure, options.json, Order::report, columns, row).await
            }
        }
    }
}

/// Prints the outcome of an action: the state of the order and its animal.
fn print_outcome(
    outcome: Result<Order, ActionRejection>,
    json: bool,
    done: &str,
    status: PetStatus,
) -> Outcome {
    let order = outcome?;
    let (id, pet, status) = (order.id, order.pet, status.as_str());
    let text = format!("order {id} is {done}: animal {pet} is {status}");
    print::result(json, &order.report(), &text)
}

fn row(order: &Order) -> [String; 4] {
    let ship_date = order.ship_date.map(|date| date.to_string());
    [
        order.id.to_string(),
        order.pet.to_string(),
        ship_date.unwrap_or_else(|| "unknown".into()),
        order.state.as_str().to_owned(),
    ]
}
