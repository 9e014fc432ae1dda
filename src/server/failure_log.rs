//! Which of the requests that fail get a line in the log. While the store is gone, all of them fail for the same cause: thousands of
//! lines would hide everything else.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::Timestamp;
use crate::health::Readiness;

/// The last line there was.
#[derive(Debug)]
pub(super) struct FailureLog(AtomicI64);

impl Default for FailureLog {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl FailureLog {
    /// Whether a request for which the store was not available gets a line. Readiness logs the beginning and the end of an
    /// outage; what fails before it has noticed one, or beside it, gets one in each second.
    pub(super) fn has_room(&self, now: Timestamp, readiness: &Readiness) -> bool {
        let second = now.as_millis().div_euclid(1_000);
        !readiness.store_has_failed() && self.0.swap(second, Ordering::Relaxed) != second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Check, State};

    #[test]
    fn a_failure_is_logged_once_a_second_and_not_while_the_store_has_failed() {
        let (log, readiness) = (FailureLog::default(), Readiness::default());
        let has_room = |millis| log.has_room(Timestamp::from_millis(millis), &readiness);
        assert_eq!(
            [0, 999, 1_000, 1_001].map(has_room),
            [true, false, true, false]
        );
        readiness.set(Check::Store, State::Failed("it cannot be read".into()));
        assert!(!has_room(2_000));
        readiness.set(Check::Store, State::Ready);
        assert!(has_room(3_000));
    }
}
