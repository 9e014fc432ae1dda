//! Numbers that many responses have in common, as header values: a limit belongs to a plan, and a window ends for all keys at once.

use std::cell::RefCell;
use std::thread::LocalKey;

use http::header::HeaderValue;

/// The last number of a header on this thread. A copy of its value is a reference count; a new value is an allocation, and 2 % of the
/// instructions of a list.
pub(super) type Repeated = RefCell<(i64, HeaderValue)>;

const fn zero() -> Repeated {
    RefCell::new((0, HeaderValue::from_static("0")))
}

thread_local! {
    /// `X-RateLimit-Limit`
    pub(super) static LIMIT: Repeated = const { zero() };
    /// `X-RateLimit-Reset`
    pub(super) static RESET: Repeated = const { zero() };
}

/// A number as a header value.
pub(super) fn value(last: &'static LocalKey<Repeated>, number: i64) -> HeaderValue {
    last.with_borrow_mut(|(of, value)| {
        if *of != number {
            (*of, *value) = (number, number.into());
        }
        value.clone()
    })
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
