//! The resources of the admin API: their paths and methods.

use crate::key::KeyId;
use crate::order::OrderId;
use crate::pet::PetId;

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
    /// The resource at a path, without `/api/`.
    pub(super) fn at(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        // All IDs have the same spelling.
        let id = |text: &str| PetId::from_path(text).map(|id| id.0);
        Some(match *parts.as_slice() {
            ["overview"] => Self::Overview,
            ["live"] => Self::Live,
            ["session"] => Self::Session,
            ["keys"] => Self::Keys,
            ["keys", key] => Self::Key(KeyId(id(key)?)),
            ["keys", key, "rotate"] => Self::RotateKey(KeyId(id(key)?)),
            ["keys", key, "revoke"] => Self::RevokeKey(KeyId(id(key)?)),
            ["keys", key, "unban"] => Self::UnbanKey(KeyId(id(key)?)),
            ["keys", key, "plan"] => Self::KeyPlan(KeyId(id(key)?)),
            ["pets"] => Self::Pets,
            ["pets", pet] => Self::Pet(PetId(id(pet)?)),
            ["pets", pet, "status"] => Self::PetStatus(PetId(id(pet)?)),
            ["orders"] => Self::Orders,
            ["orders", order, "complete"] => Self::CompleteOrder(OrderId(id(order)?)),
            ["orders", order, "cancel"] => Self::CancelOrder(OrderId(id(order)?)),
            _ => return None,
        })
    }

    /// The value of `Allow`.
    pub(super) const fn methods(self) -> &'static str {
        match self {
            Self::Overview | Self::Key(_) | Self::Pets | Self::Pet(_) => "GET, HEAD",
            Self::Live => "GET",
            Self::Session => "GET, HEAD, POST, DELETE",
            Self::Keys | Self::Orders => "GET, HEAD, POST",
            Self::RotateKey(_) | Self::RevokeKey(_) | Self::UnbanKey(_) | Self::KeyPlan(_) => {
                "POST"
            }
            Self::PetStatus(_) | Self::CompleteOrder(_) | Self::CancelOrder(_) => "POST",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        assert_eq!(Resource::at("keys/12"), Some(Resource::Key(KeyId(12))));
        let rotate = Resource::RotateKey(KeyId(12));
        assert_eq!(Resource::at("keys/12/rotate"), Some(rotate));
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
