//! Orders in SQL, and the statuses of animals, which change with them. The changes are decided in `order::action`; an
//! index allows only one open order for each animal, and no constraint enforces the other rules.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params};

use super::Sqlite;
use crate::clock::Timestamp;
use crate::order::action::{ActionOutcome, ActionTarget, CurrentState, OrderChange, PetChange};
use crate::order::transition::Action;
use crate::order::{Order, OrderId, OrderState};
use crate::page::OrderQuery;
use crate::pet::{PetId, PetStatus};
use crate::store::contract::{ActionResult, Page, Result};
use crate::store::pages::{PageWriter, rows_to_read};
use crate::store::row::{ORDER_COLUMNS, order_condition, read_order, read_status, write_order};

impl Sqlite {
    pub(crate) async fn act(&self, action: Action, now: Timestamp) -> ActionResult<ActionOutcome> {
        // There is one writer, so nothing changes between reading and writing.
        self.write(move |connection| {
            let (clause, id) = match action.target() {
                ActionTarget::Pet(pet) => ("WHERE pet_id = ?1 AND status = 'open'", pet.0),
                ActionTarget::Order(id) => ("WHERE id = ?1", id.0),
            };
            let order = select(connection, clause, [id])?.pop();
            let pet = match action.target() {
                ActionTarget::Pet(pet) => Some(pet),
                ActionTarget::Order(_) => order.map(|order| order.pet),
            };
            let status = pet.map_or(Ok(None), |pet| status_of(connection, pet))?;
            let changes = match action.decide(CurrentState { status, order }, now) {
                Ok(changes) => changes,
                Err(rejection) => return Ok(Err(rejection)),
            };
            let pet = changes.pet.0;
            match changes.pet_change {
                Some(PetChange::Status(status)) => connection
                    .prepare_cached("UPDATE pets SET status = ?2 WHERE id = ?1")?
                    .execute(params![pet, status.as_str()])?,
                Some(PetChange::Remove) => {
                    connection.execute("DELETE FROM pets WHERE id = ?1", [pet])?
                }
                None => 0,
            };
            let order = changes
                .order_change
                .map(|change| write(connection, change, now));
            let order = order.transpose()?;
            let before = changes.before;
            Ok(Ok(ActionOutcome { before, order }))
        })
        .await
    }

    pub(crate) async fn order_page(&self, query: OrderQuery) -> Result<Page> {
        self.read(|connection| {
            let clause = "WHERE id > ?1 AND status <> 'cancelled' ORDER BY id LIMIT ?2";
            let mut statement = prepare(connection, clause)?;
            let mut rows =
                statement.query(params![query.cursor.id(), rows_to_read(query.limit)])?;
            let mut page = PageWriter::new(query.limit);
            while let Some(row) = rows.next()?
                && page.add(|json| write_order(json, row))?
            {}
            Ok(page.finish())
        })
    }

    pub(crate) async fn orders_after(
        &self,
        after: OrderId,
        state: Option<OrderState>,
        limit: i64,
    ) -> Result<Vec<Order>> {
        let clause = format!(
            "WHERE id > ?1 AND {} ORDER BY id LIMIT ?2",
            order_condition(state)
        );
        self.read(|connection| select(connection, &clause, params![after.0, limit]))
    }
}

/// Writes a change of an order, and returns the order as it is then.
fn write(connection: &Connection, change: OrderChange, now: Timestamp) -> rusqlite::Result<Order> {
    match change {
        OrderChange::Place(order) => {
            connection.execute(
                "INSERT INTO orders (pet_id, ship_date, status, placed_at) VALUES (?1, ?2, 'open', ?3)",
                params![
                    order.pet.0,
                    order.ship_date.map(Timestamp::as_millis),
                    now.as_millis()
                ],
            )?;
            Ok(order.with_id(OrderId(connection.last_insert_rowid())))
        }
        OrderChange::End(order) => {
            connection.execute(
                "UPDATE orders SET status = ?2, ended_at = ?3 WHERE id = ?1",
                params![order.id.0, order.state.as_str(), now.as_millis()],
            )?;
            Ok(order)
        }
    }
}

fn select(
    connection: &Connection,
    clause: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<Order>> {
    prepare(connection, clause)?
        .query_map(values, |row| read_order(row))?
        .collect()
}

fn prepare<'c>(connection: &'c Connection, clause: &str) -> rusqlite::Result<CachedStatement<'c>> {
    connection.prepare_cached(&format!("SELECT {ORDER_COLUMNS} FROM orders {clause}"))
}

fn status_of(connection: &Connection, pet: PetId) -> rusqlite::Result<Option<PetStatus>> {
    connection
        .prepare_cached("SELECT status FROM pets WHERE id = ?1")?
        .query_row([pet.0], |row| read_status(row, 0))
        .optional()
}
