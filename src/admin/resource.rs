//! The resources of the admin API: their paths and methods.

use crate::api::operation::READ_METHODS;
use crate::key::KeyId;
use crate::order::OrderId;
use crate::pet::PetId;

const READ_OR_CREATE: &str = "GET, HEAD, POST";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Overview,
    Live,
    Session,
    Keys,
    Key(KeyId),
    RotateKey(KeyId),
    RevokeKey(KeyId),
    UnbanKey(KeyId),
    KeyPlan(KeyId),
    Pets,
    Pet(PetId),
    PetStatus(PetId),
    Orders,
    CompleteOrder(OrderId),
    CancelOrder(OrderId),
}

impl Resource {
    /// The resource at a path, without `/api/`, and its methods, as in `Allow`.
    pub(super) fn at(path: &str) -> Option<(Self, &'static str)> {
        let parts: Vec<&str> = path.split('/').collect();
        Some(match *parts.as_slice() {
            ["overview"] => (Self::Overview, READ_METHODS),
            ["live"] => (Self::Live, "GET"),
            ["session"] => (Self::Session, "GET, HEAD, POST, DELETE"),
            ["keys"] => (Self::Keys, READ_OR_CREATE),
            ["keys", key] => (Self::Key(KeyId(parse_id(key)?)), READ_METHODS),
            ["keys", key, "rotate"] => (Self::RotateKey(KeyId(parse_id(key)?)), "POST"),
            ["keys", key, "revoke"] => (Self::RevokeKey(KeyId(parse_id(key)?)), "POST"),
            ["keys", key, "unban"] => (Self::UnbanKey(KeyId(parse_id(key)?)), "POST"),
            ["keys", key, "plan"] => (Self::KeyPlan(KeyId(parse_id(key)?)), "POST"),
            ["pets"] => (Self::Pets, READ_METHODS),
            ["pets", pet] => (Self::Pet(PetId(parse_id(pet)?)), READ_METHODS),
            ["pets", pet, "status"] => (Self::PetStatus(PetId(parse_id(pet)?)), "POST"),
            ["orders"] => (Self::Orders, READ_OR_CREATE),
            ["orders", order, "complete"] => {
                (Self::CompleteOrder(OrderId(parse_id(order)?)), "POST")
            }
            ["orders", order, "cancel"] => (Self::CancelOrder(OrderId(parse_id(order)?)), "POST"),
            _ => return None,
        })
    }
}

/// Parses the ID of an animal, a key or an order: all have the same spelling.
pub(super) fn parse_id(text: &str) -> Option<i64> {
    PetId::from_path(text).map(|id| id.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        let key = Resource::Key(KeyId(12));
        assert_eq!(Resource::at("keys/12"), Some((key, "GET, HEAD")));
        let rotate = Resource::RotateKey(KeyId(12));
        assert_eq!(Resource::at("keys/12/rotate"), Some((rotate, "POST")));
        for unknown in [
            "",
            "keys/",
            "keys/012",
            "keys/x",
            "keys/1/delete",
            "keys/1/rotate/",
            "x",
        ] {
            assert_eq!(Resource::at(unknown), None, "{unknown}");
        }
    }
}
