//! Limits the errors that failed requests log besides their log lines. During an outage of the store all requests fail for the same
//! cause: thousands of errors would hide everything else.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::Timestamp;
use crate::health::Readiness;

/// How many seconds before the last logged error a failed request may have begun: few requests take longer. An earlier time shows that
/// the clock was set back.
const MAX_LATENESS_SECONDS: i64 = 60;

/// The second in which the request of the last logged error began.
pub(super) struct ErrorLogLimiter(AtomicI64);

impl Default for ErrorLogLimiter {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl ErrorLogLimiter {
    /// Whether the failure of a request because the store was unavailable is also logged as an error. Readiness logs the start and
    /// the end of an outage; before it has detected one, an error is logged each second.
    pub(super) fn allows(&self, began_at: Timestamp, readiness: &Readiness) -> bool {
        let second = began_at.as_millis().div_euclid(1_000);
        // Requests that began in different seconds fail in any order. A much earlier one shows that the clock was set back.
        let is_new = |last: i64| {
            (second > last || last.saturating_sub(second) > MAX_LATENESS_SECONDS).then_some(second)
        };
        !readiness.store_has_failed()
            && self
                .0
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_new)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Check, CheckState};

    #[test]
    fn a_failure_is_logged_once_a_second_and_not_while_the_store_has_failed() {
        let (log, readiness) = (ErrorLogLimiter::default(), Readiness::default());
        let allows = |millis| log.allows(Timestamp::from_millis(millis), &readiness);
        assert_eq!(
            [0, 999, 1_000, 1_001].map(allows),
            [true, false, true, false]
        );
        // Requests that began in an earlier second and failed later.
        assert_eq!(
            [2_000, 1_002, 2_001, 1_003].map(allows),
            [true, false, false, false]
        );
        readiness.set(Check::Store, CheckState::Failed("it cannot be read".into()));
        assert!(!allows(3_000));
        readiness.set(Check::Store, CheckState::Ready);
        assert!(allows(3_000));
        // The clock was set back by an hour.
        assert!(allows(-3_600_000));
        assert!(!allows(-3_600_000));
    }
}
