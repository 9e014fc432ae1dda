//! The columns of the tables and what they mean, the same for every engine. Names in the database stay as they were: `refused` are
//! rejected requests, `use_batches` are batches of usage, and the `status` of an order is its state.

use std::error::Error;

use super::contract::{KeyRecord, UsageRow};
use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId};
use crate::limit::Ban;
use crate::names::FromName;
use crate::order::{Order, OrderId, OrderState};
use crate::pet::{self, Pet, PetId, PetStatus};
use crate::plan::{Plan, PlanName};

pub(super) const ORDER_COLUMNS: &str = "id, pet_id, ship_date, status";

pub(super) const USAGE_COLUMNS: &str = "day, api_key_id, name, requests, refused";

pub(super) const KEY_COLUMNS: &str = "id, name, plan, per_minute, per_day, prefix, hash, old_hash, old_until, created_at, \
     expires_at, revoked_at, last_used_at, banned_at, banned_until, unbanned_at, revision";

/// The condition on orders in this state, or in any. The state is part of the text, so that PostgreSQL can use a partial index.
pub(super) fn order_condition(state: Option<OrderState>) -> String {
    state.map_or("true".into(), |state| {
        format!("status = '{}'", state.as_str())
    })
}

/// The values of the columns of a plan: only the enterprise plan has limits per key.
pub(super) fn plan_columns(plan: Plan) -> (&'static str, Option<i64>, Option<i64>) {
    let limits = match plan {
        Plan::Enterprise(limits) => Some(limits),
        _ => None,
    };
    let per_minute = limits.map(|limits| limits.per_minute().into());
    let per_day = limits.map(|limits| limits.per_day().into());
    (plan.name().as_str(), per_minute, per_day)
}

pub(super) trait SqlRow {
    type Error;

    fn text(&self, column: usize) -> Result<&str, Self::Error>;

    fn int(&self, column: usize) -> Result<i64, Self::Error>;

    fn optional_int(&self, column: usize) -> Result<Option<i64>, Self::Error>;

    fn optional_hash(&self, column: usize) -> Result<Option<[u8; 32]>, Self::Error>;

    /// The error for a value that this program does not write.
    fn invalid(column: usize, message: String) -> Self::Error;

    fn time(&self, column: usize) -> Result<Option<Timestamp>, Self::Error> {
        Ok(self.optional_int(column)?.map(Timestamp::from_millis))
    }

    fn hash(&self, column: usize) -> Result<[u8; 32], Self::Error> {
        let missing = || Self::invalid(column, "a hash is missing".into());
        self.optional_hash(column)?.ok_or_else(missing)
    }
}

/// Appends the JSON of an animal without copying its name, and returns its ID.
pub(super) fn write_pet<R: SqlRow>(json: &mut Vec<u8>, row: &R) -> Result<i64, R::Error> {
    let id = row.int(0)?;
    pet::write_json(json, PetId(id), row.text(1)?, row.int(2)?, row.text(3)?);
    Ok(id)
}

pub(super) fn read_pet<R: SqlRow>(row: &R) -> Result<Pet, R::Error> {
    Ok(Pet {
        id: PetId(row.int(0)?),
        name: row.text(1)?.to_owned(),
        category_id: row.int(2)?,
        status: read_status(row, 3)?,
    })
}

pub(super) fn read_status<R: SqlRow>(row: &R, column: usize) -> Result<PetStatus, R::Error> {
    let name = row.text(column)?;
    let invalid = |_| R::invalid(column, format!("unknown status of an animal: {name:?}"));
    name.parse().map_err(invalid)
}

pub(super) fn read_order<R: SqlRow>(row: &R) -> Result<Order, R::Error> {
    let name = row.text(3)?;
    let invalid = || R::invalid(3, format!("unknown state of an order: {name:?}"));
    Ok(Order {
        id: OrderId(row.int(0)?),
        pet: PetId(row.int(1)?),
        ship_date: row.time(2)?,
        state: OrderState::from_name(name).ok_or_else(invalid)?,
    })
}

/// Appends the JSON of an order, and returns its ID.
pub(super) fn write_order<R: SqlRow>(json: &mut Vec<u8>, row: &R) -> Result<i64, R::Error> {
    let order = read_order(row)?;
    order.write_json(json);
    Ok(order.id.0)
}

pub(super) fn read_usage<R: SqlRow>(row: &R) -> Result<UsageRow, R::Error> {
    Ok(UsageRow {
        day: row.text(0)?.to_owned(),
        key: KeyId(row.int(1)?),
        name: row.text(2)?.to_owned(),
        requests: row.int(3)?,
        rejected: row.int(4)?,
    })
}

/// The ID of a key, and its requests on a day; `u32::MAX` if there were more.
pub(super) fn read_requests<R: SqlRow>(row: &R) -> Result<(KeyId, u32), R::Error> {
    let requests = u32::try_from(row.int(1)?).unwrap_or(u32::MAX);
    Ok((KeyId(row.int(0)?), requests))
}

pub(super) fn read_key<R: SqlRow>(row: &R) -> Result<KeyRecord, R::Error> {
    let old_hash = row.optional_hash(7)?.map(KeyHash);
    let ban = row.time(13)?.zip(row.time(14)?);
    Ok(KeyRecord {
        id: KeyId(row.int(0)?),
        name: row.text(1)?.to_owned(),
        plan: read_plan(row)?,
        prefix: row.text(5)?.to_owned(),
        hash: KeyHash(row.hash(6)?),
        old: old_hash.zip(row.time(8)?),
        created_at: Timestamp::from_millis(row.int(9)?),
        expires_at: row.time(10)?,
        revoked_at: row.time(11)?,
        last_used_at: row.time(12)?,
        ban: ban.map(|(started_at, until)| Ban { started_at, until }),
        unbanned_at: row.time(15)?,
        revision: row.int(16)?,
    })
}

/// The plan of a key. One that was written by hand may be invalid.
fn read_plan<R: SqlRow>(row: &R) -> Result<Plan, R::Error> {
    let (per_minute, per_day) = (row.optional_int(3)?, row.optional_int(4)?);
    let read = |name: &str| {
        let limit = |limit: Option<i64>| limit.map(u32::try_from).transpose();
        let name: PlanName = name.parse()?;
        Ok::<_, Box<dyn Error>>(name.with_limits(limit(per_minute)?, limit(per_day)?)?)
    };
    let invalid = |error| R::invalid(2, format!("a key's plan cannot be read: {error}"));
    read(row.text(2)?).map_err(invalid)
}
