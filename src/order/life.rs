//! The life of an animal's status, together with its order. All that is allowed:
//!
//! | what happens              | animal    | order | animal becomes | order becomes |
//! |---------------------------|-----------|-------|----------------|---------------|
//! | an order is placed        | available | none  | pending        | open          |
//! | the order completes       | any       | open  | sold           | complete      |
//! | the order is cancelled    | any       | open  | available      | cancelled     |
//! | a status is set           | any       | none  | that status    | none          |
//! | `pending` is set          | any       | open  | pending        | open          |
//! | another is set, by force  | any       | open  | that status    | cancelled     |
//!
//! An open order keeps its animal pending, so "any" is pending, unless the database was changed by hand; the end of the order
//! corrects that. Everything else is refused. Pure: no clock, no store.

use super::OrderState;
use crate::pet::PetStatus;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An order is placed.
    Place,
    /// It completes.
    Complete,
    /// It is cancelled.
    Cancel,
    /// An operator sets a status.
    SetStatus {
        /// The status.
        to: PetStatus,
        /// Also against an open order, which is then cancelled.
        force: bool,
    },
}

/// Why an event is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// Only an available animal can be ordered.
    #[error("the animal is not available: it is {}", .0.word())]
    NotAvailable(PetStatus),
    /// There is nothing to complete or to cancel.
    #[error("the animal has no open order")]
    NoOrder,
    /// A complete order stays complete.
    #[error("the order is already complete")]
    AlreadyComplete,
    /// A cancelled order stays cancelled.
    #[error("the order was cancelled")]
    WasCancelled,
    /// The status would contradict the open order.
    #[error(
        "the animal has an open order: complete or cancel it, or use --force, which cancels it"
    )]
    HasOpenOrder,
}

/// The animal's status and the order's state after an event. `order` is the one the event is about: for placing and setting
/// a status the animal's open order, for completing and cancelling the order that was named.
pub fn next(
    status: PetStatus,
    order: Option<OrderState>,
    event: Event,
) -> Result<(PetStatus, Option<OrderState>), NotAllowed> {
    use OrderState::{Cancelled, Complete, Open};
    use PetStatus::{Available, Pending, Sold};
    match (event, order) {
        (Event::Place, Some(Open)) => Err(NotAllowed::NotAvailable(status)),
        (Event::Place, _) if status == Available => Ok((Pending, Some(Open))),
        (Event::Place, _) => Err(NotAllowed::NotAvailable(status)),
        (Event::Complete, Some(Open)) => Ok((Sold, Some(Complete))),
        (Event::Cancel, Some(Open)) => Ok((Available, Some(Cancelled))),
        (Event::Complete | Event::Cancel, Some(Complete)) => Err(NotAllowed::AlreadyComplete),
        (Event::Complete | Event::Cancel, Some(Cancelled)) => Err(NotAllowed::WasCancelled),
        (Event::Complete | Event::Cancel, None) => Err(NotAllowed::NoOrder),
        (Event::SetStatus { to: Pending, .. }, Some(Open)) => Ok((Pending, order)),
        (Event::SetStatus { to, force: true }, Some(Open)) => Ok((to, Some(Cancelled))),
        (Event::SetStatus { force: false, .. }, Some(Open)) => Err(NotAllowed::HasOpenOrder),
        (Event::SetStatus { to, .. }, _) => Ok((to, order)),
    }
}
