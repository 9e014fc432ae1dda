//! Orders in SQL, and the statuses of animals that change with them. What is allowed is decided in `order::life`;
//! the constraints of the tables would refuse what slipped through.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::clock::Timestamp;
use crate::order::life::{self, Event};
use crate::order::{Order, OrderId, OrderState, Refusal};
use crate::page::OrderQuery;
use crate::pet::{PetId, PetStatus};
use crate::store::pages::{PageWriter, asked_for};
use crate::store::{Page, StatusSet};

const COLUMNS: &str = "id, pet_id, ship_date, status";

type Allowed<T> = Result<T, Refusal>;

/// Places an order for an animal.
pub(super) fn place(
    connection: &Connection,
    pet: PetId,
    ship_date: Option<Timestamp>,
    now: Timestamp,
) -> rusqlite::Result<Allowed<Order>> {
    let Some(status) = status_of(connection, pet)? else {
        return Ok(Err(Refusal::NoSuchPet(pet)));
    };
    let open = open_order(connection, pet)?;
    let status = match life::next(status, open.map(|order| order.state), Event::Place) {
        Ok((status, _)) => status,
        Err(no) => return Ok(Err(no.into())),
    };
    set_pet(connection, pet, status)?;
    connection.execute(
        "INSERT INTO orders (pet_id, ship_date, status, placed_at) VALUES (?1, ?2, 'open', ?3)",
        params![pet.0, ship_date.map(Timestamp::as_millis), now.as_millis()],
    )?;
    Ok(Ok(Order {
        id: OrderId(connection.last_insert_rowid()),
        pet,
        ship_date,
        state: OrderState::Open,
    }))
}

/// Completes or cancels an order.
pub(super) fn end(
    connection: &Connection,
    id: OrderId,
    event: Event,
    now: Timestamp,
) -> rusqlite::Result<Allowed<Order>> {
    let Some(order) = by_id(connection, id)? else {
        return Ok(Err(Refusal::NoSuchOrder(id)));
    };
    let Some(status) = status_of(connection, order.pet)? else {
        return Ok(Err(Refusal::NoSuchPet(order.pet)));
    };
    Ok(match life::next(status, Some(order.state), event) {
        Err(no) => Err(no.into()),
        Ok((status, state)) => {
            set_pet(connection, order.pet, status)?;
            let state = state.unwrap_or(order.state);
            set_order(connection, id, state, now)?;
            Ok(Order { state, ..order })
        }
    })
}

/// Sets the status of an animal outright.
pub(super) fn set_status(
    connection: &Connection,
    pet: PetId,
    to: PetStatus,
    force: bool,
    now: Timestamp,
) -> rusqlite::Result<Allowed<StatusSet>> {
    let Some(before) = status_of(connection, pet)? else {
        return Ok(Err(Refusal::NoSuchPet(pet)));
    };
    let open = open_order(connection, pet)?;
    let state = match life::next(
        before,
        open.map(|order| order.state),
        Event::SetStatus { to, force },
    ) {
        Ok((_, state)) => state,
        Err(no) => return Ok(Err(no.into())),
    };
    if to != before {
        set_pet(connection, pet, to)?;
    }
    let withdrawn = open.filter(|order| Some(order.state) != state);
    if let (Some(order), Some(state)) = (withdrawn, state) {
        set_order(connection, order.id, state, now)?;
    }
    Ok(Ok(StatusSet {
        before,
        withdrawn: withdrawn.map(|order| order.id),
    }))
}

/// A page of the orders that are listed, as JSON.
pub(super) fn page(connection: &Connection, query: OrderQuery) -> rusqlite::Result<Page> {
    let which = "WHERE id > ?1 AND status <> 'cancelled' ORDER BY id LIMIT ?2";
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM orders {which}"))?;
    let mut rows = statement.query(params![query.cursor.id(), asked_for(query.limit)])?;
    let mut page = PageWriter::new(query.limit);
    while let Some(row) = rows.next()?
        && let Some(json) = page.row()
    {
        let order = order(row)?;
        order.write_json(json);
        page.wrote(order.id.0);
    }
    Ok(page.finish())
}

/// All orders, cancelled ones too.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<Order>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM orders ORDER BY id"))?;
    statement.query_map((), order)?.collect()
}

fn by_id(connection: &Connection, id: OrderId) -> rusqlite::Result<Option<Order>> {
    one(connection, "WHERE id = ?1", [id.0])
}

fn open_order(connection: &Connection, pet: PetId) -> rusqlite::Result<Option<Order>> {
    one(connection, "WHERE pet_id = ?1 AND status = 'open'", [pet.0])
}

fn one(
    connection: &Connection,
    which: &str,
    params: impl Params,
) -> rusqlite::Result<Option<Order>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM orders {which}"))?
        .query_row(params, order)
        .optional()
}

fn order(row: &Row<'_>) -> rusqlite::Result<Order> {
    let word = row.get_ref(3)?.as_str()?;
    let state = OrderState::from_word(word)
        .ok_or_else(|| rusqlite::Error::InvalidColumnType(3, word.to_owned(), Type::Text))?;
    Ok(Order {
        id: OrderId(row.get(0)?),
        pet: PetId(row.get(1)?),
        ship_date: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis),
        state,
    })
}

fn status_of(connection: &Connection, pet: PetId) -> rusqlite::Result<Option<PetStatus>> {
    connection
        .prepare_cached("SELECT status FROM pets WHERE id = ?1")?
        .query_row([pet.0], |row| {
            let word = row.get_ref(0)?.as_str()?;
            word.parse()
                .map_err(|_| rusqlite::Error::InvalidColumnType(0, word.to_owned(), Type::Text))
        })
        .optional()
}

fn set_pet(connection: &Connection, pet: PetId, status: PetStatus) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE pets SET status = ?2 WHERE id = ?1")?
        .execute(params![pet.0, status.word()])
        .map(drop)
}

fn set_order(
    connection: &Connection,
    id: OrderId,
    state: OrderState,
    now: Timestamp,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE orders SET status = ?2, ended_at = ?3 WHERE id = ?1")?
        .execute(params![id.0, state.word(), now.as_millis()])
        .map(drop)
}
