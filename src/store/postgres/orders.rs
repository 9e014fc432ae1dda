//! Orders in SQL, and the statuses of animals that change with them. What is allowed is decided in `order::life`. Whoever
//! changes an animal locks its row first, so that two never decide by the same state.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::{Lease, Session};
use super::keys::{raise, take_number};
use super::{Answer, Trouble};
use crate::clock::Timestamp;
use crate::order::life::{self, Event};
use crate::order::{Order, OrderId, OrderState, Refusal};
use crate::page::OrderQuery;
use crate::pet::{PetId, PetStatus};
use crate::store::pages::{PageWriter, asked_for};
use crate::store::{Page, StatusSet};

const COLUMNS: &str = "id, pet_id, ship_date, status";

type Allowed<T> = Answer<Result<T, Refusal>>;

/// Places an order for an animal.
pub(super) async fn place(
    transaction: &Transaction<'_>,
    pet: PetId,
    ship_date: Option<Timestamp>,
    now: Timestamp,
) -> Allowed<Order> {
    let Some(status) = lock(transaction, pet).await? else {
        return Ok(Err(Refusal::NoSuchPet(pet)));
    };
    let open = open_order(transaction, pet).await?;
    let status = match life::next(status, open.map(|order| order.state), Event::Place) {
        Ok((status, _)) => status,
        Err(no) => return Ok(Err(no.into())),
    };
    set_pet(transaction, pet, status).await?;
    let id = take_number(transaction, "orders").await?;
    transaction
        .execute(
            "INSERT INTO orders (id, pet_id, ship_date, status, placed_at) VALUES ($1, $2, $3, 'open', $4)",
            &[
                &id,
                &pet.0,
                &ship_date.map(Timestamp::as_millis),
                &now.as_millis(),
            ],
        )
        .await?;
    Ok(Ok(Order {
        id: OrderId(id),
        pet,
        ship_date,
        state: OrderState::Open,
    }))
}

/// Completes or cancels an order.
pub(super) async fn end(
    transaction: &Transaction<'_>,
    id: OrderId,
    event: Event,
    now: Timestamp,
) -> Allowed<Order> {
    let Some(order) = by_id(transaction, id).await? else {
        return Ok(Err(Refusal::NoSuchOrder(id)));
    };
    let Some(status) = lock(transaction, order.pet).await? else {
        return Ok(Err(Refusal::NoSuchPet(order.pet)));
    };
    // Only now does it stay as it is.
    let order = by_id(transaction, id).await?.unwrap_or(order);
    Ok(match life::next(status, Some(order.state), event) {
        Err(no) => Err(no.into()),
        Ok((status, state)) => {
            set_pet(transaction, order.pet, status).await?;
            let state = state.unwrap_or(order.state);
            set_order(transaction, id, state, now).await?;
            Ok(Order { state, ..order })
        }
    })
}

/// Sets the status of an animal outright.
pub(super) async fn set_status(
    transaction: &Transaction<'_>,
    pet: PetId,
    to: PetStatus,
    force: bool,
    now: Timestamp,
) -> Allowed<StatusSet> {
    let Some(before) = lock(transaction, pet).await? else {
        return Ok(Err(Refusal::NoSuchPet(pet)));
    };
    let open = open_order(transaction, pet).await?;
    let event = Event::SetStatus { to, force };
    let state = match life::next(before, open.map(|order| order.state), event) {
        Ok((_, state)) => state,
        Err(no) => return Ok(Err(no.into())),
    };
    if to != before {
        set_pet(transaction, pet, to).await?;
    }
    let withdrawn = open.filter(|order| Some(order.state) != state);
    if let (Some(order), Some(state)) = (withdrawn, state) {
        set_order(transaction, order.id, state, now).await?;
    }
    Ok(Ok(StatusSet {
        before,
        withdrawn: withdrawn.map(|order| order.id),
    }))
}

/// A page of the orders that are listed, as JSON.
pub(super) async fn page(lease: &Lease, query: OrderQuery) -> Answer<Page> {
    let which = "WHERE id > $1 AND status <> 'cancelled' ORDER BY id LIMIT $2";
    let values: [&(dyn ToSql + Sync); 2] = [&query.cursor.id(), &asked_for(query.limit)];
    let mut page = PageWriter::new(query.limit);
    for order in select(&**lease, which, &values).await? {
        let Some(json) = page.row() else { break };
        order.write_json(json);
        page.wrote(order.id.0);
    }
    Ok(page.finish())
}

/// All orders, cancelled ones too.
pub(super) async fn all(lease: &Lease) -> Answer<Vec<Order>> {
    select(&**lease, "ORDER BY id", &[]).await
}

async fn by_id(transaction: &Transaction<'_>, id: OrderId) -> Answer<Option<Order>> {
    Ok(select(transaction, "WHERE id = $1", &[&id.0]).await?.pop())
}

async fn open_order(transaction: &Transaction<'_>, pet: PetId) -> Answer<Option<Order>> {
    let which = "WHERE pet_id = $1 AND status = 'open'";
    Ok(select(transaction, which, &[&pet.0]).await?.pop())
}

async fn select(
    client: &impl Session,
    which: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Answer<Vec<Order>> {
    let statement = format!("SELECT {COLUMNS} FROM orders {which}");
    let rows = client.rows(&statement, values).await?;
    rows.iter().map(order).collect()
}

fn order(row: &Row) -> Answer<Order> {
    let word: &str = row.try_get(3)?;
    let ship_date: Option<i64> = row.try_get(2)?;
    Ok(Order {
        id: OrderId(row.try_get(0)?),
        pet: PetId(row.try_get(1)?),
        ship_date: ship_date.map(Timestamp::from_millis),
        state: OrderState::from_word(word)
            .ok_or_else(|| Trouble::Failed(format!("an order's status is {word:?}")))?,
    })
}

/// The status of an animal, which nobody else can change until the transaction ends.
async fn lock(transaction: &Transaction<'_>, pet: PetId) -> Answer<Option<PetStatus>> {
    let row = transaction
        .query_opt(
            "SELECT status FROM pets WHERE id = $1 FOR UPDATE",
            &[&pet.0],
        )
        .await?;
    row.map(|row| {
        let word: &str = row.try_get(0)?;
        word.parse()
            .map_err(|_| Trouble::Failed(format!("an animal's status is {word:?}")))
    })
    .transpose()
}

async fn set_pet(transaction: &Transaction<'_>, pet: PetId, status: PetStatus) -> Answer<()> {
    transaction
        .execute(
            "UPDATE pets SET status = $2 WHERE id = $1",
            &[&pet.0, &status.word()],
        )
        .await?;
    raise(transaction, "pets").await.map(drop)
}

async fn set_order(
    transaction: &Transaction<'_>,
    id: OrderId,
    state: OrderState,
    now: Timestamp,
) -> Answer<()> {
    transaction
        .execute(
            "UPDATE orders SET status = $2, ended_at = $3 WHERE id = $1",
            &[&id.0, &state.word(), &now.as_millis()],
        )
        .await?;
    Ok(())
}
