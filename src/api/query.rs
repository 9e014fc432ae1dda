//! The query string of a list: known parameters, each at most once; unknown ones are ignored.

use std::borrow::Cow;
use std::convert::Infallible;
use std::str::FromStr;

use super::error::ApiError;
use crate::page::{BoundCursor, Cursor, CursorError, OrderQuery, PetQuery, Scope};
use crate::percent::decode;

/// Where clients of the API get cursors from, in messages.
pub(crate) const CURSOR_SOURCE: &str = "a Link header";

/// Parses `limit`, `status` and `cursor`. `source` says, in messages, where the clients of this listener get cursors.
pub(crate) fn parse_pet_query(query: Option<&str>, source: &str) -> Result<PetQuery, ApiError> {
    let (mut limit, mut status, mut cursor) = (None, None, None);
    for (name, value) in pairs(query) {
        match name.as_deref() {
            Some("limit") => parse_into(&mut limit, "limit", value)?,
            Some("status") => parse_into(&mut status, "status", value)?,
            Some("cursor") => parse_into(&mut cursor, "cursor", value)?,
            _ => {}
        }
    }
    Ok(PetQuery {
        limit: limit.unwrap_or_default(),
        status,
        cursor: start(cursor, Scope::Pets(status), source)?,
    })
}

/// Parses `limit` and `cursor`. `source` says, in messages, where the clients of this listener get cursors.
pub(crate) fn parse_order_query(query: Option<&str>, source: &str) -> Result<OrderQuery, ApiError> {
    let (mut limit, mut cursor) = (None, None);
    for (name, value) in pairs(query) {
        match name.as_deref() {
            Some("limit") => parse_into(&mut limit, "limit", value)?,
            Some("cursor") => parse_into(&mut cursor, "cursor", value)?,
            _ => {}
        }
    }
    Ok(OrderQuery {
        limit: limit.unwrap_or_default(),
        cursor: start(cursor, Scope::Orders, source)?,
    })
}

/// A cursor as it was sent. It is judged when the list is known.
struct SentCursor(Result<BoundCursor, CursorError>);

impl FromStr for SentCursor {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse()))
    }
}

/// The position after which a page of this list starts.
fn start(cursor: Option<SentCursor>, scope: Scope, source: &str) -> Result<Cursor, ApiError> {
    let Some(SentCursor(cursor)) = cursor else {
        return Ok(Cursor::default());
    };
    let found = cursor.and_then(|cursor| cursor.within(scope));
    found.map_err(|error| ApiError::InvalidParameter {
        name: "cursor",
        problem: match error {
            CursorError::Malformed => {
                format!("must be the value from {source} of this service, unchanged")
            }
            CursorError::WrongScope => format!(
                "belongs to another list or another status filter: use the value from {source} of this list, unchanged"
            ),
        },
    })
}

/// Names, decoded if possible, and values as sent.
fn pairs(query: Option<&str>) -> impl Iterator<Item = (Option<Cow<'_, str>>, &str)> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), value)
    })
}

fn parse_into<T: FromStr<Err: ToString>>(
    slot: &mut Option<T>,
    name: &'static str,
    value: &str,
) -> Result<(), ApiError> {
    let problem = |problem: String| ApiError::InvalidParameter { name, problem };
    if slot.is_some() {
        return Err(problem("must be given at most once".into()));
    }
    // No parameter may be empty, so a value that cannot be decoded is reported as invalid.
    let value = decode(value).unwrap_or_default();
    *slot = Some(
        value
            .parse()
            .map_err(|error: T::Err| problem(error.to_string()))?,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pet::PetStatus;

    #[test]
    fn known_parameters_are_parsed_and_unknown_ones_ignored() {
        assert_eq!(
            parse_pet_query(None, CURSOR_SOURCE).unwrap(),
            PetQuery::default()
        );
        assert_eq!(
            parse_pet_query(Some(""), CURSOR_SOURCE).unwrap(),
            PetQuery::default()
        );
        let query =
            parse_pet_query(Some("x=1&limit=5&&status=s%6Fld&x=2&%zz=1"), CURSOR_SOURCE).unwrap();
        assert_eq!(
            (query.limit.get(), query.status),
            (5, Some(PetStatus::Sold))
        );
    }

    #[test]
    fn an_invalid_or_repeated_parameter_is_named_with_its_rule() {
        let limit = "limit must be an integer from 1 to 100, without a sign or leading zeros.";
        for (query, message) in [
            ("limit=0", limit),
            ("limit", limit),
            ("limit=%35%", limit),
            (
                "status=Sold",
                "status must be one of available, pending, sold.",
            ),
            (
                "cursor=",
                "cursor must be the value from a Link header of this service, unchanged.",
            ),
            ("limit=1&limit=1", "limit must be given at most once."),
            ("limit=1&l%69mit=2", "limit must be given at most once."),
        ] {
            assert_eq!(
                parse_pet_query(Some(query), CURSOR_SOURCE)
                    .unwrap_err()
                    .to_string(),
                message,
                "{query}"
            );
        }
    }

    #[test]
    fn a_list_of_orders_has_a_size_and_a_cursor_of_its_own() {
        assert_eq!(
            parse_order_query(None, CURSOR_SOURCE).unwrap(),
            OrderQuery::default()
        );
        let cursor = Cursor::after(7).bound_to(Scope::Orders);
        let query = parse_order_query(
            Some(&format!("limit=5&status=x&cursor={cursor}")),
            CURSOR_SOURCE,
        )
        .unwrap();
        assert_eq!((query.limit.get(), query.cursor.id()), (5, 7));
        assert!(parse_pet_query(Some(&format!("cursor={cursor}")), CURSOR_SOURCE).is_err());
    }
}
