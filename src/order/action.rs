//! The changes of an action. They are decided here, once for all engines, on the state that a store has read; the store only writes
//! them.

use super::transition::{Action, InvalidTransition, next};
use super::{NewOrder, Order, OrderId};
use crate::clock::Timestamp;
use crate::pet::{PetId, PetStatus};

/// The animal or order that an action names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ActionTarget {
    /// An animal: the order is the one that is open for it, if any.
    Pet(PetId),
    /// An order: the animal is the one that it is for.
    Order(OrderId),
}

/// The state that an action is decided on, read in the transaction that writes the changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentState {
    pub(crate) status: Option<PetStatus>,
    pub(crate) order: Option<Order>,
}

/// The changes that a store writes, in one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeSet {
    pub(crate) pet: PetId,
    pub(crate) before: PetStatus,
    pub(crate) pet_change: Option<PetChange>,
    pub(crate) order_change: Option<OrderChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PetChange {
    Status(PetStatus),
    /// It is removed. Its orders stay, and no new animal gets its ID.
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderChange {
    Place(NewOrder),
    /// The end of this one, in its final state.
    End(Order),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionOutcome {
    /// The animal's status before.
    pub before: PetStatus,
    /// The order that was placed, completed or cancelled, if any.
    pub order: Option<Order>,
}

/// Why an action is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionRejection {
    #[error("unknown animal {0}")]
    UnknownPet(PetId),
    #[error("unknown order {0}")]
    UnknownOrder(OrderId),
    #[error("cannot change order {}, which is {}: its animal {} was removed", .0.id, .0.state.as_str(), .0.pet)]
    RemovedPet(Order),
    /// The animal has an open order, which the action would contradict.
    #[error("animal {} has an open order", .0.pet)]
    OpenOrder(Order),
    #[error("the ship date {0} is in the past")]
    ShipDatePast(Timestamp),
    #[error(transparent)]
    InvalidTransition(#[from] InvalidTransition),
}

impl Action {
    pub(crate) fn target(self) -> ActionTarget {
        match self {
            Self::Place { pet, .. } | Self::SetStatus { pet, .. } | Self::Remove { pet, .. } => {
                ActionTarget::Pet(pet)
            }
            Self::Complete(id) | Self::Cancel(id) => ActionTarget::Order(id),
        }
    }

    pub(crate) fn decide(
        self,
        found: CurrentState,
        now: Timestamp,
    ) -> Result<ChangeSet, ActionRejection> {
        if let Self::Place {
            ship_date: Some(date),
            ..
        } = self
            && date < now
        {
            return Err(ActionRejection::ShipDatePast(date));
        }
        let (pet, missing) = match (self.target(), found.order) {
            (ActionTarget::Pet(pet), _) => (pet, ActionRejection::UnknownPet(pet)),
            (ActionTarget::Order(_), Some(order)) => {
                (order.pet, ActionRejection::RemovedPet(order))
            }
            (ActionTarget::Order(id), None) => return Err(ActionRejection::UnknownOrder(id)),
        };
        let before = found.status.ok_or(missing)?;
        let state = found.order.map(|order| order.state);
        let (status, after) = next(before, state, self).map_err(|error| match found.order {
            Some(order) if error == InvalidTransition::HasOpenOrder => {
                ActionRejection::OpenOrder(order)
            }
            _ => error.into(),
        })?;
        let order_change = match (self, found.order) {
            (Self::Place { pet, ship_date }, _) => {
                Some(OrderChange::Place(NewOrder { pet, ship_date }))
            }
            (_, Some(order)) => after
                .filter(|after| *after != order.state)
                .map(|state| OrderChange::End(Order { state, ..order })),
            (_, None) => None,
        };
        let pet_change = match status {
            None => Some(PetChange::Remove),
            Some(status) => (status != before).then_some(PetChange::Status(status)),
        };
        Ok(ChangeSet {
            pet,
            before,
            pet_change,
            order_change,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::OrderState;
    use PetStatus::{Available, Pending, Sold};

    const PET: PetId = PetId(7);
    const NOW: Timestamp = Timestamp::from_secs(1_794_830_410);

    fn order(state: OrderState) -> Order {
        Order {
            id: OrderId(3),
            pet: PET,
            ship_date: None,
            state,
        }
    }

    /// What an action changes: the animal's status and an order's state.
    fn decide(
        action: Action,
        status: Option<PetStatus>,
        order: Option<Order>,
    ) -> Result<(Option<PetChange>, Option<OrderState>), ActionRejection> {
        let changes = action.decide(CurrentState { status, order }, NOW)?;
        assert_eq!((changes.pet, Some(changes.before)), (PET, status));
        let state = changes.order_change.map(|change| match change {
            OrderChange::Place(new) => new.with_id(OrderId(3)).state,
            OrderChange::End(order) => order.state,
        });
        Ok((changes.pet_change, state))
    }

    #[test]
    fn only_differences_are_written() {
        let open = Some(order(OrderState::Open));
        let to = |status| Some(PetChange::Status(status));
        let remove = |force| Action::Remove { pet: PET, force };
        let set = |to, force| Action::SetStatus {
            pet: PET,
            to,
            force,
        };
        let place = Action::Place {
            pet: PET,
            ship_date: Some(NOW),
        };
        let (complete, cancel) = (Action::Complete(OrderId(3)), Action::Cancel(OrderId(3)));
        for (action, status, order, changes) in [
            (
                place,
                Available,
                None,
                (to(Pending), Some(OrderState::Open)),
            ),
            (
                complete,
                Pending,
                open,
                (to(Sold), Some(OrderState::Complete)),
            ),
            (complete, Sold, open, (None, Some(OrderState::Complete))),
            (
                cancel,
                Pending,
                open,
                (to(Available), Some(OrderState::Cancelled)),
            ),
            (set(Sold, false), Available, None, (to(Sold), None)),
            (set(Sold, false), Sold, None, (None, None)),
            (set(Pending, true), Pending, open, (None, None)),
            (
                set(Sold, true),
                Pending,
                open,
                (to(Sold), Some(OrderState::Cancelled)),
            ),
            (remove(false), Sold, None, (Some(PetChange::Remove), None)),
            (
                remove(true),
                Pending,
                open,
                (Some(PetChange::Remove), Some(OrderState::Cancelled)),
            ),
        ] {
            assert_eq!(
                decide(action, Some(status), order),
                Ok(changes),
                "{action:?}"
            );
        }
    }

    #[test]
    fn an_action_that_is_not_allowed_is_rejected_for_the_first_reason() {
        let past = NOW.minus(std::time::Duration::from_millis(1));
        let place = |ship_date| Action::Place {
            pet: PET,
            ship_date,
        };
        let complete = Action::Complete(OrderId(3));
        let remove = Action::Remove {
            pet: PET,
            force: false,
        };
        let open = Some(order(OrderState::Open));
        for (action, status, order, rejection) in [
            (
                place(Some(past)),
                None,
                None,
                ActionRejection::ShipDatePast(past),
            ),
            (place(None), None, None, ActionRejection::UnknownPet(PET)),
            (
                place(None),
                Some(Sold),
                None,
                InvalidTransition::NotAvailable(Sold).into(),
            ),
            (
                complete,
                None,
                None,
                ActionRejection::UnknownOrder(OrderId(3)),
            ),
            (remove, None, None, ActionRejection::UnknownPet(PET)),
            (
                remove,
                Some(Pending),
                open,
                ActionRejection::OpenOrder(self::order(OrderState::Open)),
            ),
            (
                complete,
                None,
                Some(self::order(OrderState::Complete)),
                ActionRejection::RemovedPet(self::order(OrderState::Complete)),
            ),
            (
                complete,
                Some(Sold),
                Some(self::order(OrderState::Complete)),
                InvalidTransition::AlreadyComplete.into(),
            ),
        ] {
            assert_eq!(decide(action, status, order), Err(rejection), "{action:?}");
        }
    }
}
