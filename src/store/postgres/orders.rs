//! Orders in SQL, and the statuses of animals, which change with them. The changes are decided in `order::action`. The row of
//! the animal is locked first, so that no two actions are decided on the same state.

use deadpool_postgres::Transaction;

use super::counters::{next_id, raise_revision};
use super::engine::Postgres;
use super::error::PgResult;
use super::pool::{Executor, SqlValue};
use super::timeout::LONG_TIMEOUT;
use crate::clock::Timestamp;
use crate::order::action::{ActionOutcome, ActionTarget, CurrentState, OrderChange, PetChange};
use crate::order::transition::Action;
use crate::order::{Order, OrderId, OrderState};
use crate::page::OrderQuery;
use crate::pet::{PetId, PetStatus};
use crate::store::contract::{ActionResult, Page, Result};
use crate::store::pages::{PageWriter, rows_to_read};
use crate::store::row::{ORDER_COLUMNS, order_condition, read_order, read_status, write_order};

/// A page of the orders that are listed.
const PAGE: &str = "SELECT id, pet_id, ship_date, status FROM orders
     WHERE id > $1 AND status <> 'cancelled' ORDER BY id LIMIT $2";

/// Prepared in advance, as those of `pets` are.
pub(super) const STATEMENTS: [&str; 1] = [PAGE];

impl Postgres {
    pub(crate) async fn act(&self, action: Action, now: Timestamp) -> ActionResult<ActionOutcome> {
        self.transact(LONG_TIMEOUT, async |transaction| {
            let found = find(transaction, action.target()).await?;
            let changes = match action.decide(found, now) {
                Ok(changes) => changes,
                Err(rejection) => return Ok(Err(rejection)),
            };
            let pet = changes.pet.0;
            match changes.pet_change {
                Some(PetChange::Status(status)) => {
                    let update = "UPDATE pets SET status = $2 WHERE id = $1";
                    let values: [SqlValue<'_>; 2] = [&pet, &status.as_str()];
                    transaction.execute_cached(update, &values).await?;
                }
                Some(PetChange::Remove) => {
                    let delete = "DELETE FROM pets WHERE id = $1";
                    transaction.execute_cached(delete, &[&pet]).await?;
                }
                None => {}
            }
            if changes.pet_change.is_some() {
                raise_revision(transaction, "pets").await?;
            }
            let order = match changes.order_change {
                Some(change) => Some(write(transaction, change, now).await?),
                None => None,
            };
            let before = changes.before;
            Ok(Ok(ActionOutcome { before, order }))
        })
        .await
    }

    pub(crate) async fn order_page(&self, query: OrderQuery) -> Result<Page> {
        self.read(async |lease| {
            let values: [SqlValue<'_>; 2] = [&query.cursor.id(), &rows_to_read(query.limit)];
            let mut page = PageWriter::new(query.limit);
            for row in &lease.query_cached(PAGE, &values).await? {
                page.add(|json| write_order(json, row))?;
            }
            Ok(page.finish())
        })
        .await
    }

    pub(crate) async fn orders_after(
        &self,
        after: OrderId,
        state: Option<OrderState>,
        limit: i64,
    ) -> Result<Vec<Order>> {
        let clause = format!(
            "WHERE id > $1 AND {} ORDER BY id LIMIT $2",
            order_condition(state)
        );
        self.read_many(async |lease| select(&**lease, &clause, &[&after.0, &limit]).await)
            .await
    }
}

/// Reads what an action is decided on. Only once the animal is locked does its order stay as it is.
async fn find(transaction: &Transaction<'_>, target: ActionTarget) -> PgResult<CurrentState> {
    let (clause, id) = match target {
        ActionTarget::Pet(pet) => ("WHERE pet_id = $1 AND status = 'open'", pet.0),
        ActionTarget::Order(id) => ("WHERE id = $1", id.0),
    };
    let order = async || PgResult::Ok(select(transaction, clause, &[&id]).await?.pop());
    let pet = match target {
        ActionTarget::Pet(pet) => Some(pet),
        ActionTarget::Order(_) => order().await?.map(|order| order.pet),
    };
    let status = match pet {
        Some(pet) => lock(transaction, pet).await?,
        None => None,
    };
    let order = order().await?;
    Ok(CurrentState { status, order })
}

/// The status of an animal, which nothing else can change until the transaction ends.
async fn lock(transaction: &Transaction<'_>, pet: PetId) -> PgResult<Option<PetStatus>> {
    let select = "SELECT status FROM pets WHERE id = $1 FOR UPDATE";
    let row = transaction.query_opt(select, &[&pet.0]).await?;
    row.map(|row| read_status(&row, 0)).transpose()
}

/// Writes a change of an order, and returns the order as it is then.
async fn write(
    transaction: &Transaction<'_>,
    change: OrderChange,
    now: Timestamp,
) -> PgResult<Order> {
    let now = now.as_millis();
    match change {
        OrderChange::Place(order) => {
            let id = next_id(transaction, "orders").await?;
            let ship_date = order.ship_date.map(Timestamp::as_millis);
            let insert = "INSERT INTO orders (id, pet_id, ship_date, status, placed_at) VALUES ($1, $2, $3, 'open', $4)";
            let values: [SqlValue<'_>; 4] = [&id, &order.pet.0, &ship_date, &now];
            transaction.execute_cached(insert, &values).await?;
            Ok(order.with_id(OrderId(id)))
        }
        OrderChange::End(order) => {
            let update = "UPDATE orders SET status = $2, ended_at = $3 WHERE id = $1";
            let values: [SqlValue<'_>; 3] = [&order.id.0, &order.state.as_str(), &now];
            transaction.execute_cached(update, &values).await?;
            Ok(order)
        }
    }
}

async fn select(
    session: &impl Executor,
    clause: &str,
    values: &[SqlValue<'_>],
) -> PgResult<Vec<Order>> {
    let sql = format!("SELECT {ORDER_COLUMNS} FROM orders {clause}");
    let rows = session.query_cached(&sql, values).await?;
    rows.iter().map(read_order).collect()
}
