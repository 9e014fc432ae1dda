//! An order for an animal: its types and its JSON format. How it and the animal's status change together is in `order::transition` and
//! `order::action`. Knows nothing of HTTP or of stores.

pub mod action;
pub mod transition;

use std::fmt;
use std::io::Write;

use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::names::named;
use crate::pet::PetId;

/// The ID of an order, assigned when it is placed and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub i64);

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The quantity of an order: each is for one animal.
pub const QUANTITY: u8 = 1;

named! {
    /// The state of an order: open while the animal is pending, complete when it is sold; the API does not list cancelled
    /// ones.
    #[derive(clap::ValueEnum)]
    pub enum OrderState {
        Open = "open",
        Complete = "complete",
        Cancelled = "cancelled",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub id: OrderId,
    pub pet: PetId,
    /// When the animal leaves, if known.
    pub ship_date: Option<Timestamp>,
    pub state: OrderState,
}

/// An order before it has an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewOrder {
    pub(crate) pet: PetId,
    pub(crate) ship_date: Option<Timestamp>,
}

impl NewOrder {
    pub(crate) fn with_id(self, id: OrderId) -> Order {
        Order {
            id,
            pet: self.pet,
            ship_date: self.ship_date,
            state: OrderState::Open,
        }
    }
}

impl Order {
    pub fn write_json(&self, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail, and no part of an order needs escaping.
        let _ = write!(
            out,
            "{{\"id\":{},\"petId\":{},\"quantity\":{QUANTITY}",
            self.id, self.pet
        );
        if let Some(date) = self.ship_date {
            let _ = write!(out, ",\"shipDate\":\"{date}\"");
        }
        let _ = write!(
            out,
            ",\"complete\":{}}}",
            self.state == OrderState::Complete
        );
    }

    /// The order for operators: as the API shows it, and its state.
    pub(crate) fn report(&self) -> Value {
        let mut report = json!({"id": self.id.0, "petId": self.pet.0, "quantity": QUANTITY});
        if let Some(date) = self.ship_date {
            report["shipDate"] = date.to_string().into();
        }
        report["complete"] = (self.state == OrderState::Complete).into();
        report["state"] = self.state.as_str().into();
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ship_date_is_shown_if_it_is_known() {
        let mut order = Order {
            id: OrderId(1),
            pet: PetId(2),
            ship_date: None,
            state: OrderState::Open,
        };
        let json = |order: &Order| {
            let mut out = Vec::new();
            order.write_json(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            json(&order),
            r#"{"id":1,"petId":2,"quantity":1,"complete":false}"#
        );
        order.ship_date = Some(Timestamp::from_secs(1_794_700_800));
        order.state = OrderState::Complete;
        let expected =
            r#"{"id":1,"petId":2,"quantity":1,"shipDate":"2026-11-15T00:00:00Z","complete":true}"#;
        assert_eq!(json(&order), expected);
    }
}
