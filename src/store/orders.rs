//! The contract for orders, and for the statuses of animals, which change with them.

use super::Store;
use super::contract::{ActionResult, CHUNK_ROWS, Page, Result, StoreError};
use super::engine::{dispatch, traced};
use super::pages::rows_to_read;
use super::row_stream::{RowStream, row_stream};
use crate::clock::Timestamp;
use crate::order::action::ActionOutcome;
use crate::order::transition::Action;
use crate::order::{Order, OrderId, OrderState};
use crate::page::{Cursor, OrderQuery};
use crate::pet::{PetId, PetStatus};

impl Store {
    /// A page of orders in ascending order of IDs, without cancelled ones. Not cached: an order changes.
    pub async fn order_page(&self, query: OrderQuery) -> Result<Page> {
        traced!("SELECT" "orders", self.order_page(query))
    }

    /// All orders, cancelled ones too, or those in one state, in ascending order of IDs.
    pub fn orders(&self, state: Option<OrderState>) -> RowStream<'_, Order> {
        row_stream(async move |last: Option<Order>| {
            let after = last.map_or(OrderId(i64::MIN), |order| order.id);
            dispatch!(self.orders_after(after, state, CHUNK_ROWS.into()))
        })
    }

    /// A page of all orders, cancelled ones too, or of those in one state, and where the next one begins.
    pub async fn all_orders_page(
        &self,
        query: OrderQuery,
        state: Option<OrderState>,
    ) -> Result<(Vec<Order>, Option<Cursor>)> {
        let (after, rows) = (OrderId(query.cursor.id()), rows_to_read(query.limit));
        let mut orders = dispatch!(self.orders_after(after, state, rows))?;
        let has_more = orders.len() > query.limit.get();
        orders.truncate(query.limit.get());
        let next = orders.last().filter(|_| has_more);
        let next = next.map(|order| Cursor::after(order.id.0));
        Ok((orders, next))
    }

    /// Places an order; the animal becomes pending.
    pub async fn place_order(
        &self,
        pet: PetId,
        ship_date: Option<Timestamp>,
        now: Timestamp,
    ) -> ActionResult<Order> {
        let action = Action::Place { pet, ship_date };
        changed_order(self.act(action, now).await)
    }

    /// Completes an order; the animal becomes sold.
    pub async fn complete_order(&self, id: OrderId, now: Timestamp) -> ActionResult<Order> {
        changed_order(self.act(Action::Complete(id), now).await)
    }

    /// Cancels an order; the animal becomes available.
    pub async fn cancel_order(&self, id: OrderId, now: Timestamp) -> ActionResult<Order> {
        changed_order(self.act(Action::Cancel(id), now).await)
    }

    /// Sets the status of an animal. With `force` an open order is cancelled.
    pub async fn set_status(
        &self,
        pet: PetId,
        to: PetStatus,
        force: bool,
        now: Timestamp,
    ) -> ActionResult<ActionOutcome> {
        self.act(Action::SetStatus { pet, to, force }, now).await
    }

    /// Removes an animal; its orders stay. With `force` an open order is cancelled. Its ID MUST NOT be given to a new animal,
    /// even if it was the largest.
    pub async fn remove_pet(
        &self,
        pet: PetId,
        force: bool,
        now: Timestamp,
    ) -> ActionResult<ActionOutcome> {
        self.act(Action::Remove { pet, force }, now).await
    }

    /// Carries out an action. The engine MUST read what [`Action::decide`] needs and write what that returns in one transaction,
    /// and MUST NOT let another action on the same animal come between: there is at most one open order for an animal.
    async fn act(&self, action: Action, now: Timestamp) -> ActionResult<ActionOutcome> {
        dispatch!(self.act(action, now))
    }
}

/// The order of an action that always changes one.
fn changed_order(outcome: ActionResult<ActionOutcome>) -> ActionResult<Order> {
    let missing = || StoreError::Failed("the action changed no order".into());
    match outcome? {
        Ok(outcome) => outcome.order.map(Ok).ok_or_else(missing),
        Err(rejection) => Ok(Err(rejection)),
    }
}
