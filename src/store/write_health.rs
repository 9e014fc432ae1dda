//! Whether writes succeed at present. A full disk fails every write for as long as it is full: that is one line in the log when
//! it begins and one when it ends, and a state that readiness can show meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The outcome of the last transactions.
#[derive(Debug, Default)]
pub(super) struct WriteHealth(Mutex<Option<Failing>>);

#[derive(Debug)]
struct Failing {
    trouble: &'static str,
    transactions: u64,
}

impl WriteHealth {
    /// A transaction was committed.
    pub(super) fn succeeded(&self) {
        if let Some(failing) = self.lock().take() {
            tracing::info!(
                failed = failing.transactions,
                "the database can be written again"
            );
        }
    }

    /// A transaction failed. The error is for the log; what kind of trouble it is may be shown to anyone.
    pub(super) fn failed(&self, error: &dyn std::fmt::Display, trouble: &'static str) {
        let mut state = self.lock();
        let before = state.as_ref().map_or(0, |failing| failing.transactions);
        if before == 0 {
            tracing::error!(%error, "the database cannot be written; this is logged once, until it can be again");
        }
        *state = Some(Failing {
            trouble,
            transactions: before + 1,
        });
    }

    /// Why the last transaction failed; none if it did not.
    pub(super) fn trouble(&self) -> Option<&'static str> {
        self.lock().as_ref().map(|failing| failing.trouble)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_that_of_the_last_failure_until_a_write_succeeds() {
        let health = WriteHealth::default();
        assert_eq!(health.trouble(), None);
        health.failed(&"database is locked", "locked");
        health.failed(&"database or disk is full", "disk full");
        assert_eq!(health.trouble(), Some("disk full"));
        health.succeeded();
        assert_eq!(health.trouble(), None);
    }
}
