//! The `Authorization` header: the API key of a client, or the admin token of an operator.

use crate::http::Field;

/// The credentials of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// No bearer token.
    Missing,
    /// More than one header: ambiguous, whatever they contain.
    Several,
    /// A token, valid or not. It is secret: this type has no `Debug`.
    Token(&'a [u8]),
}

impl<'a> Credentials<'a> {
    /// Reads `Authorization: Bearer <key>`. The scheme is case-insensitive. Other schemes are ignored.
    pub fn of(authorization: Field<'a>) -> Self {
        let value = match authorization {
            Field::Absent => return Self::Missing,
            Field::Several => return Self::Several,
            Field::One(value) => value,
        };
        let token = match value.split_at_checked(7) {
            // As nearly all clients write it.
            Some((b"Bearer ", token)) => token,
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token,
            _ => return Self::Missing,
        };
        match token.trim_ascii() {
            [] => Self::Missing,
            token => Self::Token(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: &str) -> Option<String> {
        match Credentials::of(Field::One(value.as_bytes())) {
            Credentials::Missing | Credentials::Several => None,
            Credentials::Token(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
        }
    }

    #[test]
    fn only_one_bearer_token_is_a_key() {
        assert_eq!(key("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(key("bEARER  abc ").as_deref(), Some("abc"));
        for nothing in ["", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "abc"] {
            assert_eq!(key(nothing), None, "{nothing}");
        }
        assert!(Credentials::of(Field::Absent) == Credentials::Missing);
        assert!(Credentials::of(Field::Several) == Credentials::Several);
    }
}
