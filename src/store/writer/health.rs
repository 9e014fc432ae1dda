//! Whether writes succeed. A full disk fails every write while it is full: that is one line in the log when it
//! starts, one when it ends, and a state that readiness shows meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The outcome of the last transactions.
#[derive(Debug, Default)]
pub(crate) struct WriteHealth(Mutex<Option<Failing>>);

#[derive(Debug)]
struct Failing {
    kind: &'static str,
    transactions: u64,
}

impl WriteHealth {
    pub(crate) fn succeeded(&self) {
        if let Some(failing) = self.lock().take() {
            tracing::info!(
                failed = failing.transactions,
                "the database can be written again"
            );
        }
    }

    /// Records a failed transaction. The error is for the log; its kind may be shown to anyone.
    pub(crate) fn failed(&self, error: &dyn std::fmt::Display, kind: &'static str) {
        let mut state = self.lock();
        let before = state.as_ref().map_or(0, |failing| failing.transactions);
        if before == 0 {
            tracing::error!(%error, "the database cannot be written; this is logged once, until it can be again");
        }
        *state = Some(Failing {
            kind,
            transactions: before + 1,
        });
    }

    /// The kind of the last failure; none if the last transaction was committed.
    pub(crate) fn failure(&self) -> Option<&'static str> {
        self.lock().as_ref().map(|failing| failing.kind)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_is_the_last_one_until_a_write_succeeds() {
        let health = WriteHealth::default();
        assert_eq!(health.failure(), None);
        health.failed(&"database is locked", "locked");
        health.failed(&"database or disk is full", "disk full");
        assert_eq!(health.failure(), Some("disk full"));
        health.succeeded();
        assert_eq!(health.failure(), None);
    }
}
