//! Numbers that many responses have in common, as header values: a limit belongs to a plan, and a window ends for all keys at the same time.

use std::cell::RefCell;
use std::thread::LocalKey;

use http::header::HeaderValue;

use super::header::{LastValue, last_value};

const fn zero() -> LastValue<i64> {
    RefCell::new((0, HeaderValue::from_static("0")))
}

thread_local! {
    /// `X-RateLimit-Limit`
    pub(super) static LIMIT: LastValue<i64> = const { zero() };
    /// `X-RateLimit-Reset`
    pub(super) static RESET: LastValue<i64> = const { zero() };
}

/// A number as a header value. New values would take 2 % of the instructions of a list.
pub(super) fn value(last: &'static LocalKey<LastValue<i64>>, number: i64) -> HeaderValue {
    last_value(last, |of| *of == number, || (number, number.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_that_of_its_number_whatever_came_before() {
        for number in [0, 60, 60, 1, 60, 0, i64::MAX] {
            assert_eq!(value(&LIMIT, number), number.to_string());
        }
    }
}
