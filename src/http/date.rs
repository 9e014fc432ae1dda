//! The header `Date`.

use std::cell::RefCell;

use http::HeaderValue;

use super::header::{self, LastValue, last_value};
use crate::clock::Timestamp;

thread_local! {
    /// The last value, by its second.
    static LAST_DATE: LastValue<i64> =
        const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
}

/// The value at this time, formatted once a second.
pub(super) fn date(now: Timestamp) -> HeaderValue {
    let second = now.as_millis().div_euclid(1_000);
    let make = || (second, header::value(now.http_date()));
    last_value(&LAST_DATE, |last| *last == second, make)
}
