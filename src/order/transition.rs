//! The transitions of an order and of its animal's status:
//!
//! | what happens                    | animal    | order | animal becomes | order becomes |
//! |---------------------------------|-----------|-------|----------------|---------------|
//! | an order is placed              | available | none  | pending        | open          |
//! | the order completes             | any       | open  | sold           | complete      |
//! | the order is cancelled          | any       | open  | available      | cancelled     |
//! | a status is set                 | any       | none  | that status    | none          |
//! | `pending` is set                | any       | open  | pending        | open          |
//! | another status is set, by force | any       | open  | that status    | cancelled     |
//! | the animal is removed           | any       | none  | removed        | none          |
//! | the animal is removed, by force | any       | open  | removed        | cancelled     |
//!
//! An open order keeps its animal pending, so in the rows with an open order "any" means pending, unless the database was changed
//! by hand; the end of the order corrects that. Everything else is rejected. Pure: no clock, no store.

use super::{OrderId, OrderState};
use crate::clock::Timestamp;
use crate::pet::{PetId, PetStatus};

/// An action of an operator on an animal or its order.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Place {
        pet: PetId,
        /// When it leaves, if known.
        ship_date: Option<Timestamp>,
    },
    Complete(OrderId),
    Cancel(OrderId),
    SetStatus {
        pet: PetId,
        to: PetStatus,
        /// Whether an open order is cancelled.
        force: bool,
    },
    /// Removes an animal. Its orders stay.
    Remove {
        pet: PetId,
        /// Whether an open order is cancelled.
        force: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTransition {
    /// It has an open order although it is available: its status was changed by hand.
    #[error("the animal already has an open order")]
    AlreadyOrdered,
    /// Only an available animal can be ordered.
    #[error("only an available animal can be ordered, and this one is {}", .0.as_str())]
    NotAvailable(PetStatus),
    #[error("the animal has no open order")]
    NoOrder,
    #[error("the order is already complete")]
    AlreadyComplete,
    #[error("the order is already cancelled")]
    AlreadyCancelled,
    /// Neither the status of an animal with an open order can be changed, nor the animal removed, without force.
    #[error("the animal has an open order")]
    HasOpenOrder,
}

/// The animal's status after an action, or None if the action removes the animal; and the order's state. `order` is the one that
/// the action is about: for completing and cancelling the order that was named, for all others the animal's open order.
pub fn next(
    status: PetStatus,
    order: Option<OrderState>,
    action: Action,
) -> Result<(Option<PetStatus>, Option<OrderState>), InvalidTransition> {
    use OrderState::{Cancelled, Complete, Open};
    use PetStatus::{Available, Pending, Sold};
    Ok(match (action, order) {
        (Action::Place { .. }, _) if status != Available => {
            return Err(InvalidTransition::NotAvailable(status));
        }
        (Action::Place { .. }, Some(Open)) => return Err(InvalidTransition::AlreadyOrdered),
        (Action::Place { .. }, _) => (Some(Pending), Some(Open)),
        (Action::Complete(_), Some(Open)) => (Some(Sold), Some(Complete)),
        (Action::Cancel(_), Some(Open)) => (Some(Available), Some(Cancelled)),
        (Action::Complete(_) | Action::Cancel(_), ended) => {
            return Err(match ended {
                Some(Complete) => InvalidTransition::AlreadyComplete,
                Some(Cancelled) => InvalidTransition::AlreadyCancelled,
                _ => InvalidTransition::NoOrder,
            });
        }
        (Action::SetStatus { to: Pending, .. }, Some(Open)) => (Some(Pending), order),
        (
            Action::SetStatus { force: false, .. } | Action::Remove { force: false, .. },
            Some(Open),
        ) => return Err(InvalidTransition::HasOpenOrder),
        (Action::SetStatus { to, .. }, Some(Open)) => (Some(to), Some(Cancelled)),
        (Action::SetStatus { to, .. }, _) => (Some(to), order),
        (Action::Remove { .. }, Some(Open)) => (None, Some(Cancelled)),
        (Action::Remove { .. }, _) => (None, order),
    })
}
